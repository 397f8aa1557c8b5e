//! The page's types match the REST interface: the interface describes each field of a type, and a field may be null in
//! the page's type exactly if it may be null in the interface.

use std::collections::BTreeMap;

use serde_json::Value;

use super::support::Installation;

/// A type of the page, and its schema in the interface.
const TYPES: [(&str, &str); 13] = [
    ("Me", "Me"),
    ("LoginMethods", "LoginMethods"),
    ("ProviderRedirect", "ProviderRedirect"),
    ("Application", "ApplicationView"),
    ("Session", "SessionView"),
    ("Subscribers", "SubscribersView"),
    ("OperatorSession", "OperatorSessionView"),
    ("Past", "PastView"),
    ("Ticket", "TicketView"),
    ("Server", "ServerView"),
    ("User", "UserView"),
    ("MadeUser", "MadeUser"),
    ("Load", "Load"),
];

/// The fields of each TypeScript interface in `api.ts`, and whether they may be null.
fn interfaces() -> BTreeMap<String, BTreeMap<String, bool>> {
    let source = include_str!("../../page/src/api.ts");
    let mut all = BTreeMap::new();
    let mut open: Option<(String, BTreeMap<String, bool>)> = None;
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("export interface ") {
            let name = rest.split(' ').next().unwrap().to_owned();
            open = Some((name, BTreeMap::new()));
        } else if line == "}" {
            all.extend(open.take());
        } else if let Some((_, fields)) = &mut open {
            let (name, kind) = line.trim().split_once(": ").unwrap();
            fields.insert(name.to_owned(), kind.contains("null"));
        }
    }
    all
}

/// The properties of a schema, including inherited ones, and whether they may be null.
fn properties(schema: &Value) -> BTreeMap<String, bool> {
    let parts = schema["allOf"].as_array().cloned().unwrap_or_default();
    let own = schema["properties"].as_object().into_iter().flatten();
    let own = own.map(|(name, of)| (name.clone(), of.to_string().contains("null")));
    own.chain(parts.iter().flat_map(properties)).collect()
}

#[test]
fn the_pages_types_match_the_interface() {
    let portal = Installation::new();
    let portal = (portal.start(), portal);
    let api = portal
        .0
        .anonymous()
        .request("GET", "/api/openapi.json", None);
    let schemas = &api.unwrap().json()["components"]["schemas"];
    let interfaces = interfaces();
    for (name, schema) in TYPES {
        let described = properties(&schemas[schema]);
        let fields = interfaces
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing in api.ts"));
        assert!(
            !fields.is_empty() && !described.is_empty(),
            "{name}: {schemas}"
        );
        for (field, null) in fields {
            let of = described.get(field);
            assert_eq!(of, Some(null), "{name}.{field} in {schema}: {described:?}");
        }
    }
}
