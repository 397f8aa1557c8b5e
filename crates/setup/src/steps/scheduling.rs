//! Permits real-time threads and locked memory through the limits of new log-in sessions (pam_limits(8)).
//!
//! The capabilities CAP_SYS_NICE and CAP_IPC_LOCK of the program file would have the same effect. But a desktop's
//! portal refuses programs with capabilities (`docs/adr/0032-setup.md`).

use anyhow::Result;
use openuvr_runtime::sched::ThreadRole;

use super::group::{self, NAME};
use super::{Context, Plan, State, Step};
use crate::changes::Change;
use crate::changes::accounts::GroupEntry;
use crate::changes::files::TextFile;

const FILE: &str = "/etc/security/limits.d/60-openuvr.conf";

/// The highest real-time priority below that of interrupt threads (50), which must run before all programs.
const PRIORITY: u64 = 49;

pub(super) struct Scheduling;

impl Step for Scheduling {
    fn name(&self) -> &'static str {
        "scheduling"
    }

    fn about(&self) -> &'static str {
        "real-time threads and locked memory"
    }

    fn reasons(&self) -> [&'static str; 2] {
        [
            "Without this step, a busy machine causes latency peaks of 4 ms and more.",
            "Members of the group can take the CPU time of other programs, and lock all memory.",
        ]
    }

    fn requires(&self) -> &'static [&'static str] {
        &["group"]
    }

    fn examine(&self, context: &Context<'_>) -> Result<State> {
        let user = match context.user() {
            Ok(user) => user,
            Err(state) => return Ok(state),
        };
        let words = ["prlimit", "--rtprio", "--memlock", "--noheadings", "--raw"];
        let words = [&words[..], &["--output=RESOURCE,SOFT"]].concat();
        let limits = context.system.run(&context.as_user(user, &words))?;
        if suffice(&limits) {
            return Ok(State::Present(format!(
                "the limits of {user} already allow real-time threads and locked memory"
            )));
        }
        let mut plan = Plan::default();
        let text = format!(
            "# By `openuvr setup`: real-time threads below those of interrupts, and locked memory.\n\
             @{NAME} - rtprio {PRIORITY}\n@{NAME} - memlock unlimited\n"
        );
        let file = Change::File(TextFile::new(FILE, text.clone()));
        match context.plan_file(&mut plan, FILE, text)? {
            Err(why) => return Ok(State::Unavailable(why)),
            Ok(true) => {}
            Ok(false) => {
                let entry = GroupEntry::find(context.system, NAME)?;
                // The file is already written, but only a new log-in session gets the limits.
                if entry.is_some_and(|entry| entry.has(user)) {
                    return Ok(State::Present(format!(
                        "already set up: the new limits apply to {user} from the next log-in on"
                    )));
                }
                // Only the membership in the group is missing. The step `group` adds the account, but is reversed at
                // once if the record contains no step that requires it. So this step records the file again.
                plan.changes.push(file);
            }
        }
        plan.note = group::note(user);
        Ok(State::Needed(plan))
    }
}

/// Whether the limits, as `prlimit` prints them, suffice for host and client.
fn suffice(limits: &str) -> bool {
    let value = |name: &str| {
        let mut lines = limits.lines();
        let value = lines.find_map(|line| line.trim().strip_prefix(name));
        value.map(|value| match value.trim() {
            "unlimited" => u64::MAX,
            number => number.parse().unwrap_or(0),
        })
    };
    let required = ThreadRole::Dispatch.priority().map_or(0, u64::from);
    value("RTPRIO").is_some_and(|priority| priority >= required)
        && value("MEMLOCK") == Some(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_suffice_for_the_highest_role_only() {
        assert!(suffice("RTPRIO 49\nMEMLOCK unlimited\n"));
        assert!(suffice("RTPRIO         unlimited\nMEMLOCK  unlimited\n"));
        assert!(suffice("RTPRIO 45\nMEMLOCK unlimited\n"));
        assert!(!suffice("RTPRIO 44\nMEMLOCK unlimited\n"));
        assert!(!suffice("RTPRIO 49\nMEMLOCK 8388608\n"));
        assert!(!suffice(""));
        for role in [
            ThreadRole::Dispatch,
            ThreadRole::Compose,
            ThreadRole::Encode,
        ] {
            assert!(role.priority().map_or(0, u64::from) <= PRIORITY, "{role:?}");
        }
    }
}
