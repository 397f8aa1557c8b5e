//! The attacks of `openuvr lab attack` on a portal. Tests that each attack runs and has the expected row in the table.
//! Response times depend on the machine, so they are not checked here.

use super::openuvr_bench;

fn row<'a>(text: &'a str, name: &str) -> &'a str {
    let start = format!("| {name} |");
    let row = text.lines().find(|line| line.starts_with(&start));
    let row = row.unwrap_or_else(|| panic!("no row {name}: {text}"));
    row.split('|').nth(6).expect("a column of figures").trim()
}

#[test]
#[ignore = "belongs to ./dev test-portal: the program openuvr-portal"]
fn a_portal_under_attack_answers_its_people() {
    let ended = openuvr_bench()
        .args([
            "lab",
            "attack",
            "--duration",
            "4s",
            "--only",
            "portal-bodies,portal-guesses",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    let numbers: Vec<u32> = row(&text, "portal-bodies")
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    // The second number is absent if a list did not arrive.
    let [lists, _, held] = numbers[..] else {
        panic!("{text}");
    };
    assert!(lists > 0 && held <= 4 * 512, "{text}");
    let guesses = row(&text, "portal-guesses");
    assert!(
        guesses.contains("the account's owner can still log in"),
        "{text}"
    );
}

#[test]
#[ignore = "belongs to ./dev test-portal: the program openuvr-portal"]
fn a_portal_under_attack_keeps_its_secrets() {
    let ended = openuvr_bench()
        .args([
            "lab",
            "attack",
            "--quick",
            "--only",
            "portal-files,portal-environment",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    let files = row(&text, "portal-files");
    assert!(files.contains("can read none of"), "{text}");
    let environment = row(&text, "portal-environment");
    assert!(environment.contains("no secret in"), "{text}");
}
