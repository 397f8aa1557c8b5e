//! The arguments of a session's program. For all launchers, they are those of `openuvr session`.

use std::path::Path;

use crate::catalogue::Application;
use crate::launch::SessionId;

/// The arguments after `openuvr session`.
pub(super) fn of(
    session: SessionId,
    user: &str,
    application: &Application,
    key: &str,
    saves: Option<&Path>,
    ice: Option<&Path>,
) -> Vec<String> {
    // The form `--name=value` is needed, because a value may begin with a hyphen (for example a key), and would
    // otherwise be parsed as an option.
    let mut words = vec![
        format!("--id={session}"),
        format!("--ticket-key={key}"),
        format!("--user={user}"),
        format!("--capture={}", application.capture.word()),
    ];
    if let Some(size) = &application.size {
        words.push(format!("--size={size}"));
    }
    if !application.place {
        words.push("--place=false".to_owned());
    }
    if application.memory > 0 {
        words.push(format!("--memory={}", application.memory));
    }
    if let Some(saves) = saves {
        words.push(format!("--save={}", saves.display()));
    }
    if let Some(file) = ice {
        words.push(format!("--set=ice-servers-file={}", file.display()));
    }
    if application.moonlight {
        // The system assigns free ports, as it does for the other kinds of clients.
        words.push("--set=moonlight=[::]:0".to_owned());
    }
    if let Some(user) = &application.application_user {
        words.push(format!("--application-user={user}"));
    }
    if application.sandbox {
        words.push("--sandbox".to_owned());
    }
    let readable = application.readable.iter();
    words.extend(readable.map(|path| format!("--readable={}", path.display())));
    words.push("--".to_owned());
    words.extend(application.command.iter().cloned());
    words
}
