//! A user's claims from a provider, and the resulting rights.

use std::collections::BTreeMap;

use openidconnect::AdditionalClaims;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OidcSection;

/// Maximum number of groups that are read; a guess.
const MAX_GROUPS: usize = 1000;

/// All claims of a token except the standard ones.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Extra {
    #[serde(flatten)]
    all: BTreeMap<String, Value>,
}

impl AdditionalClaims for Extra {}

/// A user, as identified by the provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// Issuer and subject, which permanently identify a user (OpenID Connect Core 1.0, section 5.7). Accounts are
    /// linked by this key only.
    pub(crate) subject: String,
    /// Name for a new account.
    pub(crate) name: Option<String>,
    /// Whether the user may log in.
    pub(crate) allowed: bool,
    /// Whether the user is an operator; `None` if the provider does not decide this.
    pub(crate) operator: Option<bool>,
}

/// The key that links an account to a user. It is unambiguous, because an issuer is a URL without blanks.
pub(crate) fn key(issuer: &str, subject: &str) -> String {
    format!("{issuer} {subject}")
}

/// Derives the identity and rights of a user. `claims` contains the verified claims, as JSON.
pub(crate) fn identity(section: &OidcSection, subject: &str, claims: &[Value]) -> Identity {
    let claim = |name: &str| claims.iter().find_map(|of| of.get(name));
    let name = claim(&section.name_claim).and_then(Value::as_str);
    let groups = claim(&section.group_claim).map_or_else(Vec::new, groups);
    let is_in = |group: &String| groups.contains(&group.as_str());
    let operator = section.operators.as_ref().map(is_in);
    let allowed = section.users.as_ref().is_none_or(is_in) || operator == Some(true);
    Identity {
        subject: key(&section.issuer, subject),
        name: name.map(str::to_owned),
        allowed,
        operator,
    }
}

/// Whether the claims contain the name, and the groups if the configuration needs them.
pub(crate) fn is_enough(section: &OidcSection, claims: &Value) -> bool {
    let asks_groups = section.operators.is_some() || section.users.is_some();
    claims.get(&section.name_claim).is_some()
        && (!asks_groups || claims.get(&section.group_claim).is_some())
}

/// Parses the groups: a string, or a list of strings. Other values contain no groups.
fn groups(value: &Value) -> Vec<&str> {
    match value {
        Value::String(one) => vec![one],
        Value::Array(many) => (many.iter().take(MAX_GROUPS))
            .filter_map(Value::as_str)
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn section(more: &str) -> OidcSection {
        let text =
            "issuer = \"https://id.example\"\nclient_id = \"c\"\naddress = \"https://p.example\"\n";
        toml::from_str(&format!("{text}{more}")).unwrap()
    }

    #[test]
    fn groups_grant_access_and_the_operator_role() {
        let section = section("operators = \"ops\"\nusers = \"players\"\n");
        let of = |claims: Value| {
            let identity = identity(&section, "7", &[claims]);
            (identity.allowed, identity.operator)
        };
        assert_eq!(of(json!({"groups": ["players"]})), (true, Some(false)));
        assert_eq!(of(json!({"groups": "ops"})), (true, Some(true)));
        assert_eq!(
            of(json!({"groups": ["Ops", 3, null]})),
            (false, Some(false))
        );
        // A string is one group name, even if it contains the name of another group.
        assert_eq!(of(json!({"groups": "ops players"})), (false, Some(false)));
        assert_eq!(of(json!({"groups": {"ops": true}})), (false, Some(false)));
        assert_eq!(of(json!({})), (false, Some(false)));
    }

    #[test]
    fn without_groups_the_provider_sets_no_role() {
        let section = section("name_claim = \"nick\"\n");
        let claims = json!({"nick": "ada", "groups": ["ops"]});
        let identity = identity(&section, "7", &[claims]);
        assert_eq!(identity.subject, "https://id.example 7");
        assert_eq!(identity.name.as_deref(), Some("ada"));
        assert_eq!((identity.allowed, identity.operator), (true, None));
    }
}
