//! Games of Lutris. Each has a YAML file named SLUG-TIME.yml. Only two lines at the outer level of these files matter:
//! `name` and `game_slug`. Lutris writes them as plain scalars. The SLUG in the file's name equals `game_slug`.

use super::{Places, files};
use crate::{Application, read_text};

pub(super) fn games(places: &Places) -> Vec<Application> {
    // Versions of Lutris use different folders.
    let folders = [&places.config, &places.data].map(|root| root.join("lutris/games"));
    let paths = folders.iter().flat_map(|folder| files(folder, ".yml"));
    let found = paths.filter_map(|path| {
        let text = read_text(&path).ok()?;
        game(path.file_stem()?.to_str()?, &text)
    });
    found.collect()
}

/// The game of a file with this name, without its extension.
#[must_use]
pub fn game(stem: &str, text: &str) -> Option<Application> {
    let slug = scalar(text, "game_slug").or_else(|| {
        let (slug, time) = stem.rsplit_once('-')?;
        let is_time = time.bytes().all(|digit| digit.is_ascii_digit());
        is_time.then(|| slug.to_owned())
    });
    let slug = slug.filter(|slug| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !slug.is_empty() && slug.chars().all(plain)
    })?;
    Some(Application {
        name: scalar(text, "name").unwrap_or_else(|| slug.clone()),
        command: vec!["lutris".to_owned(), format!("lutris:rungame/{slug}")],
        icon: None,
    })
}

/// The value of a key at the outer level.
fn scalar(text: &str, key: &str) -> Option<String> {
    let value = text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        rest.strip_prefix(':')
    })?;
    let value = value.trim();
    let unquoted = ['"', '\''].iter().find_map(|quote| {
        let inside = value.strip_prefix(*quote)?;
        inside.strip_suffix(*quote)
    });
    let value = unquoted.unwrap_or(value);
    (!value.is_empty()).then(|| value.replace("''", "'"))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;

    #[test]
    fn games_have_the_slug_of_their_file_or_of_its_content() {
        let (_root, places) = machine(&[
            (
                "home/.config/lutris/games/quake-1600000000.yml",
                "game:\n  name: inner\ngame_slug: quake-ii\nname: 'Player''s Quake'\n",
            ),
            (
                "home/.local/share/lutris/games/super-tux-1600000001.yml",
                "game:\n  exe: a\n",
            ),
            ("home/.config/lutris/games/strange.yml", "game: {}\n"),
            ("home/.config/lutris/games/bad-1.yml", "game_slug: a b;c\n"),
        ]);
        let found = games(&places);
        let pairs: Vec<(&str, &str)> = (found.iter())
            .map(|game| (game.name.as_str(), game.command[1].as_str()))
            .collect();
        let expected = [
            ("Player's Quake", "lutris:rungame/quake-ii"),
            ("super-tux", "lutris:rungame/super-tux"),
        ];
        assert_eq!(pairs, expected);
    }
}
