//! The script of a job: it starts the program of the session, and says in the job's comment where that can be played.

use crate::launch::{LaunchSpec, MAX_LINE};

/// What the program of a session gets after its time was over, in seconds: a guess, enough to save.
const GRACE: u32 = 10;

/// The exit code of timeout(1) where the time was over.
pub(super) const TIME_WAS_OVER: i32 = 124;

/// The exit code of env(1) and timeout(1) where there is no such program.
pub(super) const NO_PROGRAM: i32 = 127;

/// The script for bash.
pub(super) fn text(program: &[String], spec: &LaunchSpec) -> String {
    let session = spec.session;
    let mut command = vec!["env".to_owned()];
    command.extend(
        spec.environment
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    command.push(format!("OPENUVR_SESSION={session}"));
    if let Some(limit) = spec.max_duration {
        let seconds = limit.as_secs_f64().to_string();
        command.extend(["timeout", "-k", &GRACE.to_string(), &seconds].map(str::to_owned));
    }
    command.extend(program.iter().chain(&spec.words).cloned());
    let command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let command = command.join(" ");
    format!(
        r#"#!/bin/bash
# Of a job without an environment only bash itself knows where programs are.
export PATH
# The address by which others reach this node.
export OPENUVR_ADDRESS=$(scontrol show node "$SLURMD_NODENAME" --oneliner | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')
# Slurm asks all processes at once to end; this one waits for the program, and then looks after what is left.
trap : TERM
exec 3> >(
  IFS= read -r -n {MAX_LINE} line || [ -n "$line" ]
  comment=$(scontrol show job "$SLURM_JOB_ID" --oneliner | sed -n 's/.* Comment=\([^ .]*\).*/\1/p')
  scontrol update "JobId=$SLURM_JOB_ID" "Comment=$comment.$(printf '%s\n' "$line" | base64 -w 0)"
  cat > /dev/null
)
{command} >&3 3>&- &
program=$!
while wait "$program"; code=$?; kill -0 "$program" 2> /dev/null; do :; done
for left in $(grep -lzxs 'OPENUVR_SESSION={session}' /proc/[0-9]*/environ | cut -d / -f 3); do
  kill -KILL "$left"
done
exit "$code"
"#
    )
}

/// The word as bash takes it, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::process::Command;

    use super::*;
    use crate::launch::SessionId;

    #[test]
    fn words_reach_the_program_as_they_are() {
        let words = [
            "a b",
            "it's",
            "$(exit 9)",
            "`x`",
            "\"",
            "new\nline",
            "*",
            "\\",
        ];
        let spec = LaunchSpec {
            session: SessionId::random(),
            user: String::new(),
            application: String::new(),
            words: words.map(str::to_owned).to_vec(),
            environment: BTreeMap::from([("OF_THE_TEST".to_owned(), "it's; exit 8".to_owned())]),
            gpus: 0,
            millicores: 0,
            memory: 0,
            zone: None,
            max_duration: None,
        };
        let told = std::env::temp_dir().join(format!("openuvr-script-{}", spec.session));
        let program = "printf '%s\\0' \"$OF_THE_TEST\" \"$@\" > \"$0\"; exit 3";
        let told_name = told.display().to_string();
        let program = ["bash", "-c", program, &told_name].map(str::to_owned);
        // As Slurm starts it.
        let status = Command::new("/bin/bash")
            .env_clear()
            .arg("-c")
            .arg(text(&program, &spec))
            .status();
        assert_eq!(
            status.unwrap().code(),
            Some(3),
            "the program's code is the script's"
        );
        let read = std::fs::read_to_string(&told).unwrap();
        std::fs::remove_file(&told).unwrap();
        let mut heard: Vec<&str> = read.split('\0').collect();
        heard.pop();
        let (first, rest) = heard.split_first().unwrap();
        assert_eq!((*first, rest), ("it's; exit 8", words.as_slice()));
    }
}
