//! The capability CAP_NET_RAW of the program file, for `--link raw`.
//!
//! It is never set by default, for three reasons: a desktop's portal refuses programs with capabilities, all users of
//! this machine get the right, and an upgrade removes the capability (`docs/adr/0032-setup.md`).

use anyhow::Result;

use super::{Choice, Context, Plan, State, Step};
use crate::changes::Change;
use crate::changes::capabilities::{Capabilities, flags_of};

const CAPABILITY: &str = "cap_net_raw";

pub(super) struct RawEthernet;

impl Step for RawEthernet {
    fn name(&self) -> &'static str {
        "raw-ethernet"
    }

    fn about(&self) -> &'static str {
        "raw Ethernet (`--link raw`) without root"
    }

    fn reasons(&self) -> [&'static str; 2] {
        [
            "Without this step, host and client use UDP, which needs no privilege.",
            "Afterwards, each user of this machine can send and receive raw Ethernet frames with openuvr, but \
             openuvr cannot capture through a desktop's portal (GNOME, KDE).",
        ]
    }

    fn choice(&self) -> Choice {
        Choice::OnRequest
    }

    fn is_lost_at_upgrade(&self) -> bool {
        true
    }

    fn examine(&self, context: &Context<'_>) -> Result<State> {
        let program = &context.target.program;
        let current = Capabilities::current(context.system, program)?;
        if flags_of(&current).contains_key(CAPABILITY) {
            return Ok(State::Present(format!(
                "{} has {current}",
                program.display()
            )));
        }
        let after = format!("{current} {CAPABILITY}=ep").trim().to_owned();
        Ok(State::Needed(Plan {
            changes: vec![Change::Capabilities(Capabilities {
                program: program.clone(),
                after,
                before: current,
            })],
            note: None,
        }))
    }
}
