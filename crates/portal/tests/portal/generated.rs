//! A client that is generated from the portal's OpenAPI description works without changes.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::support::{Installation, PASSWORD, id};

/// Folder of the generator.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generated");
    assert!(
        folder.join("node_modules").exists(),
        "./dev test-portal fetches the generator; or npm ci in {}",
        folder.display()
    );
    folder
}

fn run(command: &mut Command) -> String {
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let complained = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command:?}: {said}{complained}");
    said
}

/// Generates a client, runs it, and returns its output.
fn use_generated(place: &Installation, scheme: &str, at: &str, number: u32) -> Vec<Value> {
    let (description, client) = (place.path("api.json"), place.path("generated"));
    let npm = |script: &str| {
        let mut npm = Command::new("npm");
        npm.current_dir(folder());
        npm.args(["run", "--silent", script, "--"]);
        npm
    };
    run(npm("generate")
        .arg("--input")
        .arg(&description)
        .arg("--output")
        .arg(&client));
    let sources = ["sdk.gen.ts", "client.gen.ts"].map(|name| client.join(name));
    run(npm("compile").args(&sources).arg("--outDir").arg(&client));
    // Without this file, node would derive the module format from the parent folder.
    std::fs::write(client.join("package.json"), "{\"type\":\"commonjs\"}").unwrap();
    let said = run(Command::new("node")
        .arg(folder().join("use.js"))
        .arg(&client)
        .arg(format!("{scheme}://{at}"))
        .args(["ada", PASSWORD, &id(number)])
        // The portal's certificate is self-signed.
        .env("NODE_TLS_REJECT_UNAUTHORIZED", "0"));
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
#[ignore = "belongs to ./dev test-portal: a generator of clients"]
fn a_generated_client_logs_in_and_plays() {
    // HTTP and HTTPS are both tested, because the cookie's name differs.
    for secure in [false, true] {
        let place = Installation::new();
        place.add_user("ada", &[]);
        if secure {
            let config = std::fs::read_to_string(place.path("portal.toml")).unwrap();
            place.write("portal.toml", &format!("{}{config}", place.secure()));
        }
        let portal = place.start();
        let fetch = "fetch(process.argv[1]).then((of) => of.text()).then(console.log)";
        let description = run(Command::new("node")
            .args(["-e", fetch])
            .arg(format!(
                "{}://{}/api/openapi.json",
                portal.scheme, portal.at
            ))
            .env("NODE_TLS_REJECT_UNAUTHORIZED", "0"));
        place.write("api.json", &description);
        let did = use_generated(&place, &portal.scheme, &portal.at, 1);
        let expected = [
            json!(["me", 401]),
            json!(["logIn", 200]),
            json!(["me", 200]),
            json!(["name", "ada"]),
            json!(["applications", 200]),
            json!(["start", 202]),
            json!(["sessions", 200]),
            json!(["session", id(1)]),
            json!(["operatorSessions", 403]),
            json!(["stop", 202]),
            json!(["logOut", 204]),
            json!(["me", 401]),
        ];
        assert_eq!(did, expected);
    }
}
