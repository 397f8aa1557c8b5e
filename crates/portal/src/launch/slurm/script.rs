//! The script of a job. It starts the session program and stores the program's endpoint in the job's comment. If the
//! exit code does not reveal why the program ended, the script also stores the reason.

use std::path::Path;

use openuvr_terminal::shell;

use crate::launch::{LaunchSpec, MAX_LINE};

/// Grace period in seconds after the time limit; a guess, enough for an application to save.
const GRACE: u32 = 10;

/// The script for bash. Standard error goes to `log`, if one is specified.
///
/// The script returns the program's exit code. The codes 124 and 127 are ambiguous, because timeout(1) and env(1)
/// return them, too. Therefore, the script itself checks the time limit and whether the program exists.
pub(super) fn text(program: &[String], spec: &LaunchSpec, log: Option<&Path>) -> String {
    let session = spec.session;
    let mut environment = vec!["env".to_owned()];
    environment.extend(
        spec.environment
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    environment.push(format!("OPENUVR_SESSION={session}"));
    let mut command = environment.clone();
    if let Some(limit) = spec.max_duration {
        let seconds = limit.as_secs_f64().to_string();
        command.extend(["timeout", "-k", &GRACE.to_string(), &seconds].map(str::to_owned));
    }
    command.extend(program.iter().chain(&spec.words).cloned());
    let (command, environment) = (shell::command(&command), shell::command(&environment));
    let name = shell::word(program.first().map_or("", String::as_str));
    let limit = spec.max_duration.map_or(0, |limit| limit.as_secs());
    let log = shell::word(log.unwrap_or(Path::new("/dev/null")));
    format!(
        r#"#!/bin/bash
# In a job without an environment, only bash itself knows the default PATH.
export PATH
umask 077
exec 2>> {log} || exec 2> /dev/null
# Sets a part of the job's comment, `about.said.why.forgotten`, to a text in base64.
note() {{
  local number=$1 text=$2 parts=()
  IFS=. read -r -a parts < <(scontrol show job "$SLURM_JOB_ID" --oneliner | sed -n 's/.* Comment=\([^ ]*\).*/\1/p')
  parts[number]=$(printf %s "$text" | base64 -w 0)
  scontrol update "JobId=$SLURM_JOB_ID" "Comment=${{parts[0]}}.${{parts[1]}}.${{parts[2]}}.${{parts[3]}}"
}}
{environment} sh -c 'command -v -- "$1"' sh {name} > /dev/null || {{
  note 2 "the program "{name}" is not on node $SLURMD_NODENAME"
  exit 127
}}
# The address at which this node is reachable.
export OPENUVR_ADDRESS=$(scontrol show node "$SLURMD_NODENAME" --oneliner | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')
# Slurm terminates all processes at once. This shell waits for the program, and then kills the remaining processes.
trap : TERM
exec 3> >(
  IFS= read -r -n {MAX_LINE} line || [ -n "$line" ]
  note 1 "$line"$'\n'
  cat > /dev/null
)
begun=$SECONDS
{command} >&3 3>&- &
program=$!
while wait "$program"; code=$?; kill -0 "$program" 2> /dev/null; do :; done
for left in $(grep -lzxs 'OPENUVR_SESSION={session}' /proc/[0-9]*/environ | cut -d / -f 3); do
  kill -KILL "$left"
done
if [ {limit} -gt 0 ] && [ $((SECONDS - begun)) -ge {limit} ] && [[ $code = 124 || $code = 137 ]]; then
  note 2 "time limit reached"
fi
exit "$code"
"#
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::process::Command;

    use super::*;
    use crate::launch::SessionId;

    #[test]
    fn arguments_reach_the_program_unchanged() {
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
            writable_root: false,
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("output");
        let program = "printf '%s\\0' \"$OF_THE_TEST\" \"$@\" > \"$0\"; exit 3";
        let file_name = file.display().to_string();
        let program = ["bash", "-c", program, &file_name].map(str::to_owned);
        // The script starts without an environment, as in a Slurm job.
        let status = Command::new("/bin/bash")
            .env_clear()
            .arg("-c")
            .arg(text(&program, &spec, None))
            .status();
        assert_eq!(
            status.unwrap().code(),
            Some(3),
            "the script exits with the program's exit code"
        );
        let read = std::fs::read_to_string(&file).unwrap();
        let mut arguments: Vec<&str> = read.split('\0').collect();
        arguments.pop();
        let (first, rest) = arguments.split_first().unwrap();
        assert_eq!((*first, rest), ("it's; exit 8", words.as_slice()));
    }
}
