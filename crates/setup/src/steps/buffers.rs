//! The limits of socket buffers.

use anyhow::Result;
use openuvr_net::udp::Options;

use super::{Context, Plan, State, Step};
use crate::changes::Change;
use crate::changes::parameter::Parameter;

const FILE: &str = "/etc/sysctl.d/60-openuvr.conf";

pub(super) struct Buffers;

impl Step for Buffers {
    fn name(&self) -> &'static str {
        "buffers"
    }

    fn about(&self) -> &'static str {
        "larger buffers of UDP sockets"
    }

    fn reasons(&self) -> [&'static str; 2] {
        [
            "Without this step, datagrams of key frames may be lost.",
            "Afterwards, any program may request some megabytes of the kernel's memory for each of its sockets.",
        ]
    }

    fn examine(&self, context: &Context<'_>) -> Result<State> {
        let options = Options::default();
        let wanted = [
            ("net.core.rmem_max", u64::from(options.receive_buffer)),
            ("net.core.wmem_max", u64::from(options.send_buffer)),
        ];
        let written = context.system.read(FILE)?.unwrap_or_default();
        let mut text = "# By `openuvr setup`: the sizes that host and client request.\n".to_owned();
        let mut parameters = Vec::new();
        for (name, value) in wanted {
            let Some(before) = Parameter::current(context.system, name)? else {
                return Ok(State::Unavailable(format!(
                    "{name} is not visible in this network namespace: run setup on the container's host"
                )));
            };
            let line = format!("{name} = {value}\n");
            if before < value {
                parameters.push(Change::Parameter(Parameter {
                    name: name.to_owned(),
                    value,
                    before,
                }));
            }
            // A line that an earlier run has written stays in the file.
            if before < value || written.contains(&line) {
                text.push_str(&line);
            }
        }
        if parameters.is_empty() {
            return Ok(State::Present("the limits suffice".to_owned()));
        }
        let mut plan = Plan::default();
        if let Err(why) = context.plan_file(&mut plan, FILE, text)? {
            return Ok(State::Unavailable(why));
        }
        plan.changes.extend(parameters);
        Ok(State::Needed(plan))
    }
}
