//! Tests with invalid tokens, and with valid tokens of other log-ins. `tests/portal/oidc.rs` tests with a real
//! provider.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use openidconnect::ProviderMetadataWithLogout;
use serde_json::{Value, json};

use super::{Identity, OidcError, OidcSection, Provider};

const ISSUER: &str = "https://id.example";

struct World {
    key: Ed25519KeyPair,
    provider: Provider,
    metadata: ProviderMetadataWithLogout,
}

impl World {
    fn new() -> World {
        let section: OidcSection = toml::from_str(
            "issuer = \"https://id.example\"\nclient_id = \"portal\"\naddress = \"https://play.example\"\n",
        )
        .unwrap();
        let key = Ed25519KeyPair::generate().unwrap();
        let metadata = json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://id.example/auth",
            "token_endpoint": "https://id.example/token",
            "jwks_uri": "https://id.example/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["EdDSA"],
        });
        let metadata: ProviderMetadataWithLogout = serde_json::from_value(metadata).unwrap();
        let public = BASE64_URL_SAFE_NO_PAD.encode(key.public_key());
        let keys = json!({"keys": [
            {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "1", "x": public},
        ]});
        let metadata = metadata.set_jwks(serde_json::from_value(keys).unwrap());
        World {
            key,
            provider: Provider::open(section).unwrap(),
            metadata,
        }
    }

    fn claims() -> Value {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        json!({
            "iss": ISSUER, "sub": "7", "aud": "portal", "iat": now, "exp": now + 60,
            "nonce": "n-1", "preferred_username": "ada",
        })
    }

    /// A token with these claims replaced.
    fn signed(&self, changes: Value) -> String {
        let mut claims = World::claims();
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let begun = begun(&json!({"alg": "EdDSA", "kid": "1"}), &claims);
        let signature = self.key.sign(begun.as_bytes());
        format!("{begun}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    fn verify(&self, token: &str) -> Result<Identity, OidcError> {
        self.provider.verify_text(&self.metadata, token, "n-1")
    }

    fn refused(&self, token: &str) -> String {
        match self.verify(token) {
            Err(OidcError::Token(why)) => why,
            other => panic!("{other:?}"),
        }
    }
}

fn begun(header: &Value, claims: &Value) -> String {
    let part = |of: &Value| BASE64_URL_SAFE_NO_PAD.encode(of.to_string());
    format!("{}.{}", part(header), part(claims))
}

#[test]
fn a_valid_token_identifies_the_user() {
    let world = World::new();
    let identity = world.verify(&world.signed(json!({}))).unwrap();
    assert_eq!(identity.subject, "https://id.example 7");
    assert_eq!(identity.name.as_deref(), Some("ada"));
}

#[test]
fn a_token_for_another_client_or_time_is_refused() {
    let world = World::new();
    let past = 1_000_000_000;
    for (changes, word) in [
        (json!({"nonce": "n-2"}), "nonce"),
        (json!({"nonce": null}), "nonce"),
        (json!({"aud": "another"}), "audience"),
        (json!({"aud": ["portal", "another"]}), "audience"),
        (json!({"iss": "https://evil.example"}), "issuer"),
        (json!({"exp": past}), "expired"),
    ] {
        let why = world.refused(&world.signed(changes.clone())).to_lowercase();
        assert!(why.contains(word), "{changes}: {why}");
    }
}

#[test]
fn a_token_with_another_signature_is_refused() {
    let world = World::new();
    let other = World::new();
    world.refused(&other.signed(json!({})));

    // HS256 with a key that an attacker may have: a faulty verifier could use the public key, or the client secret, as
    // a symmetric key.
    let claims = World::claims();
    let begun = begun(&json!({"alg": "HS256", "kid": "1"}), &claims);
    let key = hmac::Key::new(hmac::HMAC_SHA256, world.key.public_key().as_ref());
    let tag = hmac::sign(&key, begun.as_bytes());
    world.refused(&format!("{begun}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag)));

    let unsigned = self::begun(&json!({"alg": "none"}), &claims);
    world.refused(&format!("{unsigned}."));

    // The signature is valid, but belongs to another body.
    let signed = world.signed(json!({}));
    let parts: Vec<&str> = signed.split('.').collect();
    let body = World::claims().to_string().replace("\"7\"", "\"1\"");
    let body = BASE64_URL_SAFE_NO_PAD.encode(body);
    world.refused(&format!("{}.{body}.{}", parts[0], parts[2]));
}

#[test]
fn a_malformed_token_is_refused() {
    let world = World::new();
    for text in ["", ".", "..", "a.b.c", "eyJhbGciOiJFZERTQSJ9.e30.", "ä.ö.ü"] {
        world.refused(text);
    }
    world.refused(&"a.".repeat(100_000));
}
