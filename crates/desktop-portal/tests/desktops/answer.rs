//! Simulates a user: accepts the permission dialog of GNOME's portal, with keys through Mutter's own interface. KDE's
//! portal shows no dialog: version 5.27 never shows one for a session with input, and version 6 finds a stored
//! permission.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ashpd::zbus::zvariant::OwnedObjectPath;
use ashpd::zbus::{Connection, Proxy};

use crate::bus::on_bus;
use crate::desktop::{Desktop, Kind};
use crate::shell;

const TAB: u32 = 15;
const SPACE: u32 = 57;

/// The keys that select the first screen, and the keys that share this screen.
const KEYS: [&[u32]; 2] = [&[TAB, TAB, SPACE], &[TAB, TAB, TAB, SPACE]];

/// Answers permission dialogs until it is dropped.
pub(crate) struct Answer {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Answer {
    pub(crate) fn start(desktop: &Desktop) -> Answer {
        let (stop, stopped) = sync_channel(1);
        let bus = desktop.bus();
        let thread = (desktop.kind() == Kind::Gnome).then(|| {
            std::thread::spawn(move || {
                on_bus(&bus, async |bus| answer(bus, &stopped).await);
            })
        });
        Answer {
            stop: Some(stop),
            thread,
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for `time` or a stop request. Returns `false` after a stop request.
fn passes(stopped: &Receiver<()>, time: Duration) -> bool {
    stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

async fn answer(bus: &Connection, stopped: &Receiver<()>) {
    let session = session(bus).await;
    press_until(bus, &session, stopped).await;
    // The stop removes the keyboard of Mutter's session before the test continues. Otherwise, the test could mistake it
    // for the keyboard of the host's session.
    let ended: Result<(), _> = session.call("Stop", &()).await;
    ended.unwrap();
}

async fn press_until(bus: &Connection, session: &Proxy<'_>, stopped: &Receiver<()>) {
    while passes(stopped, Duration::from_millis(300)) {
        if !is_asked(bus).await {
            continue;
        }
        for keys in KEYS {
            // The dialog must finish its animation, and rebuild its list.
            if !passes(stopped, Duration::from_secs(2)) {
                return;
            }
            for key in keys {
                for pressed in [true, false] {
                    let arguments = (*key, pressed);
                    let done: Result<(), _> =
                        session.call("NotifyKeyboardKeycode", &arguments).await;
                    done.unwrap();
                }
                passes(stopped, Duration::from_millis(100));
            }
        }
        if !passes(stopped, Duration::from_secs(20)) {
            return;
        }
    }
}

/// A session of Mutter's own interface, through which keys are pressed.
async fn session(bus: &Connection) -> Proxy<'static> {
    const NAME: &str = "org.gnome.Mutter.RemoteDesktop";
    let desktop = Proxy::new(bus, NAME, "/org/gnome/Mutter/RemoteDesktop", NAME)
        .await
        .unwrap();
    let path: OwnedObjectPath = desktop.call("CreateSession", &()).await.unwrap();
    let session = Proxy::new(bus, NAME, path, "org.gnome.Mutter.RemoteDesktop.Session").await;
    let session = session.unwrap();
    let () = session.call("Start", &()).await.unwrap();
    session
}

/// Finds the portal's dialog, and gives it the focus.
const FIND: &str = "(() => {
    const all = global.get_window_actors().map(actor => actor.meta_window);
    const dialog = all.find(window => (window.get_wm_class() ?? '').includes('portal'));
    if (!dialog) return 'none';
    dialog.activate(global.get_current_time());
    return global.display.focus_window === dialog ? 'asked' : 'soon';
})()";

/// Whether the dialog of the portal has the focus.
async fn is_asked(bus: &Connection) -> bool {
    let found = shell::evaluate(bus, FIND).await;
    found.is_some_and(|found| found.contains("asked"))
}
