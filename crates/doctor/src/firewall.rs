//! The host's port in a firewall that firewalld or ufw manages. Rules that neither of them manages are not examined.

use std::process::{Command, Stdio};

use super::finding::Finding;
use super::setup;

/// Whether a firewall lets clients on other machines reach the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Port {
    Permitted,
    Blocked,
    /// Only root can read the rules.
    Hidden,
}

/// Returns no finding if no firewall is active.
pub(super) fn findings(port: u16) -> Vec<Finding> {
    let record = std::fs::read_to_string("/var/lib/openuvr/setup.json").unwrap_or_default();
    let is_set_up = port == openuvr_runtime::PORT && record.contains("\"step\": \"firewall\"");
    let settings = std::fs::read_to_string("/etc/ufw/ufw.conf").unwrap_or_default();
    let mut findings = Vec::new();
    // Exit code 253 means that firewalld is running, but refuses queries of this account.
    if matches!(status("firewall-cmd", &["--state"]), Some(0 | 253)) {
        findings.push(judge("firewalld", firewalld(port), port, is_set_up));
    }
    if settings.lines().any(|line| line.trim() == "ENABLED=yes") {
        let rules = std::fs::read_to_string("/etc/ufw/user.rules");
        let state = rules.map_or(Port::Hidden, |rules| ufw(&rules, port));
        findings.push(judge("ufw", state, port, is_set_up));
    }
    findings
}

fn judge(firewall: &str, state: Port, port: u16, is_set_up: bool) -> Finding {
    let name = "firewall";
    let remedy = match port {
        openuvr_runtime::PORT => setup("firewall"),
        port => format!("permit incoming UDP datagrams to port {port} in {firewall}"),
    };
    match state {
        Port::Permitted => Finding::ok(name, format!("{firewall} permits UDP port {port}")),
        Port::Hidden if is_set_up => Finding::ok(
            name,
            format!("{firewall} is active; openuvr setup has permitted UDP port {port}"),
        ),
        Port::Hidden => Finding::better(
            name,
            format!("{firewall} is active; only root can see whether it permits UDP port {port}"),
            remedy,
        ),
        Port::Blocked => Finding::better(
            name,
            format!(
                "no rule of {firewall} permits UDP port {port}: clients on other machines probably can't reach a host"
            ),
            remedy,
        ),
    }
}

/// Queries the rules of the default zone. Without authorisation by polkit, the queries fail.
fn firewalld(port: u16) -> Port {
    if !succeeds("firewall-cmd", &["--list-ports"]) {
        return Port::Hidden;
    }
    let service =
        port == openuvr_runtime::PORT && succeeds("firewall-cmd", &["--query-service=openuvr"]);
    match service || succeeds("firewall-cmd", &[&format!("--query-port={port}/udp")]) {
        true => Port::Permitted,
        false => Port::Blocked,
    }
}

fn succeeds(program: &str, words: &[&str]) -> bool {
    status(program, words) == Some(0)
}

fn status(program: &str, words: &[&str]) -> Option<i32> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok()?.code()
}

/// Evaluates ufw's file of rules. Each rule has a line such as `### tuple ### allow udp 4710 0.0.0.0/0 any 0.0.0.0/0
/// in`. In place of `udp`, the protocol may be `any`.
fn ufw(rules: &str, port: u16) -> Port {
    let port = port.to_string();
    let permitted = rules.lines().any(|line| {
        let Some(rule) = line.strip_prefix("### tuple ### allow ") else {
            return false;
        };
        let mut words = rule.split_whitespace();
        matches!(words.next(), Some("udp" | "any"))
            && words
                .next()
                .is_some_and(|ports| ports.split(',').any(|one| one == port))
    });
    match permitted {
        true => Port::Permitted,
        false => Port::Blocked,
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn rules_of_ufw_are_read() {
        let rule = "*filter\n### tuple ### allow udp 4710 0.0.0.0/0 any 0.0.0.0/0 OpenUVR - in\n";
        assert_eq!(ufw(rule, 4710), Port::Permitted);
        assert_eq!(ufw(&rule.replace("4710", "22,4710"), 4710), Port::Permitted);
        assert_eq!(ufw(&rule.replace("udp", "any"), 4710), Port::Permitted);
        assert_eq!(ufw(rule, 4711), Port::Blocked);
        assert_eq!(ufw(&rule.replace("udp", "tcp"), 4710), Port::Blocked);
        assert_eq!(ufw(&rule.replace("allow", "deny"), 4710), Port::Blocked);
        assert_eq!(ufw("", 4710), Port::Blocked);
    }

    #[test]
    fn a_blocked_port_has_a_remedy() {
        let blocked = judge("ufw", Port::Blocked, 4710, false);
        assert_eq!(blocked.level, Level::Better);
        assert!(blocked.remedy.unwrap().ends_with(" setup --only firewall"));
        let other = judge("ufw", Port::Blocked, 4800, false);
        assert!(other.remedy.unwrap().contains("port 4800 in ufw"));
        assert_eq!(judge("ufw", Port::Hidden, 4710, true).level, Level::Ok);
        assert_eq!(judge("ufw", Port::Hidden, 4710, false).level, Level::Better);
    }
}
