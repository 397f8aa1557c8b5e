//! The host's port in a firewall that firewalld or ufw manages. Other rules of nftables and iptables are not examined;
//! they are the administrator's responsibility.

use anyhow::Result;
use openuvr_runtime::PORT;

use super::{Context, Plan, State, Step};
use crate::Role;
use crate::changes::Change;
use crate::changes::firewalls::{Firewalld, Ufw};

/// The name of the profile in `packaging/firewall/ufw`, and the path at which the package installs the file.
const UFW_PROFILE: &str = "OpenUVR";
const UFW_FILE: &str = "/etc/ufw/applications.d/openuvr";
const UFW_SETTINGS: &str = "/etc/ufw/ufw.conf";

/// The service in `packaging/firewall/openuvr.xml`. The package installs it.
const FIREWALLD_SERVICE: &str = "openuvr";

/// Exit statuses of `firewall-cmd --state`. Without root, polkit can refuse the query.
const RUNNING: i32 = 0;
const NOT_AUTHORISED: i32 = 253;

pub(super) struct Firewall;

impl Step for Firewall {
    fn name(&self) -> &'static str {
        "firewall"
    }

    fn about(&self) -> &'static str {
        "the host's port in firewalld or ufw"
    }

    fn reasons(&self) -> [&'static str; 2] {
        [
            "Without this step, clients on other machines can't reach the host.",
            "Afterwards, all machines of the network can send to UDP port 4710 (with firewalld, also to mDNS), but the host \
             admits only paired clients.",
        ]
    }

    fn examine(&self, context: &Context<'_>) -> Result<State> {
        if context.target.role == Role::Client {
            return Ok(State::Present("only a host needs it".to_owned()));
        }
        let system = context.system;
        let state = system.status(&["firewall-cmd", "--state"])?;
        let firewalld_is_active = matches!(state, Some(RUNNING | NOT_AUTHORISED));
        let settings = system.read(UFW_SETTINGS)?.unwrap_or_default();
        let ufw_is_active = settings.lines().any(|line| line.trim() == "ENABLED=yes");
        let active = match (firewalld_is_active, ufw_is_active) {
            (false, false) => {
                let why = "neither firewalld nor ufw is active";
                return Ok(State::Present(why.to_owned()));
            }
            (true, false) => "firewalld",
            (false, true) => "ufw",
            (true, true) => "firewalld and ufw",
        };
        if !system.is_root {
            return Ok(State::Unavailable(format!(
                "setup needs root to read the rules of {active}: use sudo"
            )));
        }
        let mut plan = Plan::default();
        if firewalld_is_active {
            firewalld(context, &mut plan)?;
        }
        if ufw_is_active {
            ufw(context, &mut plan)?;
        }
        Ok(match plan.changes.is_empty() {
            true => State::Present(format!("UDP port {PORT} is already permitted in {active}")),
            false => State::Needed(plan),
        })
    }
}

/// Plans the entries of the default zone. Multicast DNS, by which clients find the host, is a service of firewalld.
fn firewalld(context: &Context<'_>, plan: &mut Plan) -> Result<()> {
    let system = context.system;
    let zone = system.run(&["firewall-cmd", "--get-default-zone"])?;
    let zone = zone.trim();
    // A running firewalld knows a newly installed service only after a reload or a start. Until then, the port is added
    // instead of the service, both to the files and to the running firewall. The two entries must be equal, so that the
    // record also matches the running firewall after a reload.
    let services = system.run(&["firewall-cmd", "--get-services"])?;
    let is_known = services
        .split_whitespace()
        .any(|name| name == FIREWALLD_SERVICE);
    let entry = |entry: &str, permanent| Firewalld {
        zone: zone.to_owned(),
        entry: entry.to_owned(),
        permanent,
    };
    let port = format!("port={PORT}/udp");
    let service = format!("service={FIREWALLD_SERVICE}");
    let (added, equivalent) = match is_known {
        true => (service, port),
        false => (port, service),
    };
    let mdns = "service=mdns";
    let all = [
        (entry(&added, true), entry(&equivalent, true)),
        (entry(&added, false), entry(&equivalent, false)),
        (entry(mdns, true), entry(mdns, true)),
        (entry(mdns, false), entry(mdns, false)),
    ];
    for (entry, equivalent) in all {
        if !entry.is_set(system)? && !equivalent.is_set(system)? {
            plan.changes.push(Change::Firewalld(entry));
        }
    }
    Ok(())
}

/// Plans the rule for the host's port. Multicast DNS needs no rule, because ufw permits it by default.
fn ufw(context: &Context<'_>, plan: &mut Plan) -> Result<()> {
    let system = context.system;
    let rule = |rule: &str| Ufw {
        rule: rule.to_owned(),
    };
    let port = rule(&format!("{PORT}/udp"));
    let profile = rule(UFW_PROFILE);
    if !port.is_set(system)? && !profile.is_set(system)? {
        let shipped = system.path(UFW_FILE).exists();
        let missing = if shipped { profile } else { port };
        plan.changes.push(Change::Ufw(missing));
    }
    Ok(())
}
