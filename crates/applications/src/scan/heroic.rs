//! Installed games of the Heroic launcher, which stores lists in JSON for each store.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Places;
use crate::{Application, read_text};

/// The commands that start Heroic, as a native program and as a Flatpak.
const NATIVE: &[&str] = &["heroic", "--no-gui"];
const FLATPAK: &[&str] = &["flatpak", "run", "com.heroicgameslauncher.hgl", "--no-gui"];

pub(super) fn games(places: &Places) -> Vec<Application> {
    let sandbox = ".var/app/com.heroicgameslauncher.hgl/config/heroic";
    let roots: [(PathBuf, &[&str]); 2] = [
        (places.config.join("heroic"), NATIVE),
        (places.home.join(sandbox), FLATPAK),
    ];
    let all = roots.iter().flat_map(|(root, start)| {
        let stores = [
            ("legendary", epic(root)),
            ("gog", gog(root)),
            ("sideload", own(root)),
        ];
        stores.into_iter().flat_map(move |(store, games)| {
            games.into_iter().map(move |(number, name)| {
                let url = format!("heroic://launch/{store}/{number}");
                let words = start.iter().map(|word| (*word).to_owned());
                Application {
                    name,
                    command: words.chain([url]).collect(),
                    icon: None,
                }
            })
        })
    });
    all.collect()
}

/// Name and title of each game of Epic's store. Both are in one JSON object, whose keys are the names.
fn epic(root: &Path) -> Vec<(String, String)> {
    let list = json(&root.join("legendaryConfig/legendary/installed.json"));
    let games = list
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let games = games.filter(|(_, game)| game["is_dlc"] != true);
    let pairs = games.map(|(name, game)| pair(name, &game["title"]));
    pairs.flatten().collect()
}

/// Name and title of each game of GOG's store. The titles are in another file.
fn gog(root: &Path) -> Vec<(String, String)> {
    let library = json(&root.join("store_cache/gog_library.json"));
    let known = entries(library.as_ref(), "games");
    let titles: HashMap<&str, &Value> = known
        .filter_map(|game| Some((game["app_name"].as_str()?, &game["title"])))
        .collect();
    let installed = json(&root.join("gog_store/installed.json"));
    let games = entries(installed.as_ref(), "installed").filter(|game| game["is_dlc"] != true);
    let pairs = games.filter_map(|game| {
        let name = game["appName"].as_str()?;
        pair(name, titles.get(name)?)
    });
    pairs.collect()
}

/// Name and title of each program that the user has added.
fn own(root: &Path) -> Vec<(String, String)> {
    let library = json(&root.join("sideload_apps/library.json"));
    let games = entries(library.as_ref(), "games");
    let pairs = games.filter_map(|game| pair(game["app_name"].as_str()?, &game["title"]));
    pairs.collect()
}

/// The elements of a list in an object.
fn entries<'a>(document: Option<&'a Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    let list = document.and_then(|document| document.get(name));
    list.and_then(Value::as_array).into_iter().flatten()
}

/// The name and title of a game; `None` if it has no title, or if its name is not safe in a URL.
fn pair(name: &str, title: &Value) -> Option<(String, String)> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let usable = !name.is_empty() && name.chars().all(plain);
    let title = title.as_str().filter(|_| usable)?;
    Some((name.to_owned(), title.to_owned()))
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_str(&read_text(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;

    #[test]
    fn games_of_all_stores_are_found() {
        let (_root, places) = machine(&[
            (
                "home/.config/heroic/legendaryConfig/legendary/installed.json",
                r#"{"Fortnight": {"title": "Fort", "is_dlc": false}, "x": {"title": "Extra", "is_dlc": true},
                    "a b": {"title": "unsafe"}}"#,
            ),
            (
                "home/.config/heroic/gog_store/installed.json",
                r#"{"installed": [{"appName": "1207", "is_dlc": false}, {"appName": "9"}]}"#,
            ),
            (
                "home/.config/heroic/store_cache/gog_library.json",
                r#"{"games": [{"app_name": "1207", "title": "Old Game"}, {"app_name": "1", "title": "Not there"}]}"#,
            ),
            (
                "home/.var/app/com.heroicgameslauncher.hgl/config/heroic/sideload_apps/library.json",
                r#"{"games": [{"app_name": "own", "title": "My own"}]}"#,
            ),
        ]);
        let found = games(&places);
        let lines: Vec<String> = (found.iter())
            .map(|game| format!("{}: {}", game.name, game.command.join(" ")))
            .collect();
        let expected = [
            "Fort: heroic --no-gui heroic://launch/legendary/Fortnight",
            "Old Game: heroic --no-gui heroic://launch/gog/1207",
            "My own: flatpak run com.heroicgameslauncher.hgl --no-gui heroic://launch/sideload/own",
        ];
        assert_eq!(lines, expected);
    }
}
