//! The forms with passwords as password managers see them
//! (<https://www.chromium.org/developers/design-documents/form-styles-that-chromium-understands>).

use serde_json::json;

use super::support::{Installation, PASSWORD};
use super::{log_in, start};

/// A script that returns the data that a password manager reads: the fields of each form in order, and the value of the
/// account name.
const FIELDS: &str =
    "[...document.querySelectorAll('form:has([type=password])')].map((form) => [...form.querySelectorAll('input')].map(
    (of) => [of.type, of.name, of.autocomplete, of.type === 'password' ? '' : of.value]))";

#[test]
fn a_password_is_changed_whose_account_the_form_names() {
    let place = Installation::new();
    let Some((mut browser, _turn)) = start(&place) else {
        return;
    };
    place.add_user("ada", &[]);
    let portal = place.start();
    let tab = log_in(&mut browser, &portal, "ada");
    let fields = browser.run(&tab, FIELDS);
    let expected = json!([
        [
            ["text", "username", "username", "ada"],
            ["password", "password", "current-password", ""],
        ],
        [
            ["text", "username", "username", "ada"],
            ["password", "old-password", "current-password", ""],
            ["password", "new-password", "new-password", ""],
        ],
    ]);
    assert_eq!(fields, expected);

    let fresh = "a staple and a battery";
    browser.run(
        &tab,
        &format!(
            "document.querySelector('#tab-account').click();
             document.querySelector('#old').value = {PASSWORD:?};
             document.querySelector('#new').value = {fresh:?};
             document.querySelector('#change').requestSubmit(); true"
        ),
    );
    // A password manager concludes from the disappearance of the form that the change succeeded.
    browser.until(
        &tab,
        "document.querySelector('#account').hidden && !document.querySelector('#login').hidden",
    );
    let anonymous = portal.anonymous();
    let logs_in = |password: &str| {
        let body = json!({"name": "ada", "password": password});
        anonymous.status("POST", "/api/login", Some(&body))
    };
    assert_eq!((logs_in(PASSWORD), logs_in(fresh)), (401, 200));
}
