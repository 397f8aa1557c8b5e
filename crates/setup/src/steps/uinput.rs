//! Access to `/dev/uinput`, with which a host emulates game pads.
//!
//! The rule names a group. The tag `uaccess` would grant the access only to the users who are logged in at this
//! machine's own screen, and to no account on a host without a screen (`docs/adr/0032-setup.md`).

use anyhow::Result;

use super::group::{self, NAME};
use super::{Context, Plan, State, Step};
use crate::Role;
use crate::changes::Change;
use crate::changes::devices::{Module, Node};

const RULES: &str = "/etc/udev/rules.d/70-openuvr.rules";
const MODULES: &str = "/etc/modules-load.d/openuvr.conf";
const DEVICE: &str = "/dev/uinput";
const MODULE: &str = "uinput";

pub(super) struct Uinput;

impl Step for Uinput {
    fn name(&self) -> &'static str {
        "uinput"
    }

    fn about(&self) -> &'static str {
        "game pads at `openuvr host`"
    }

    fn reasons(&self) -> [&'static str; 2] {
        [
            "Without this step, only programs started by `openuvr run` see the players' game pads.",
            "Members of the group can emulate any input device, keyboards included, in all sessions of this machine.",
        ]
    }

    fn requires(&self) -> &'static [&'static str] {
        &["group"]
    }

    fn examine(&self, context: &Context<'_>) -> Result<State> {
        if context.target.role == Role::Client {
            return Ok(State::Present("only a host needs it".to_owned()));
        }
        let user = match context.user() {
            Ok(user) => user,
            Err(state) => return Ok(state),
        };
        let system = context.system;
        let words = context.as_user(user, &["test", "-w", DEVICE]);
        if system.succeeds(&words)? {
            return Ok(State::Present(format!("{user} may write to {DEVICE}")));
        }
        if !system.path("/run/udev/control").exists() {
            return Ok(State::Unavailable(
                "udev is not running: if this is a container, run setup on the container's host"
                    .to_owned(),
            ));
        }
        if !system.succeeds(&["modprobe", "--dry-run", MODULE])? {
            return Ok(State::Unavailable(format!(
                "this kernel has no module {MODULE}: install the distribution's kernel"
            )));
        }
        let mut plan = Plan::default();
        let rules = format!(
            "# By `openuvr setup`: game pads that a host emulates.\n\
             KERNEL==\"uinput\", SUBSYSTEM==\"misc\", GROUP=\"{NAME}\", MODE=\"0660\", \
             OPTIONS+=\"static_node=uinput\"\n"
        );
        let modules = format!("# By `openuvr setup`.\n{MODULE}\n");
        let mut written = false;
        for (path, text) in [(RULES, rules), (MODULES, modules)] {
            match context.plan_file(&mut plan, path, text)? {
                Err(why) => return Ok(State::Unavailable(why)),
                Ok(file) => written |= file,
            }
        }
        if written {
            let words = ["udevadm", "control", "--reload"];
            plan.changes
                .push(Change::Reload(words.map(str::to_owned).to_vec()));
        }
        if !system.path("/sys/class/misc/uinput").exists() {
            plan.changes.push(Change::Module(Module {
                name: MODULE.to_owned(),
            }));
        }
        plan.changes
            .push(Change::Node(Node::new(system, DEVICE, NAME)));
        plan.note = group::note(user);
        Ok(State::Needed(plan))
    }
}
