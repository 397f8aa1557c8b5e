//! Games of Lutris. Each has a YAML file named SLUG-TIME.yml. Only two lines at the outer level of these files matter:
//! `name` and `game_slug`, which are plain or quoted scalars. The SLUG in the file's name equals `game_slug`.

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
    let mut lines = text;
    let value = loop {
        match lines
            .strip_prefix(key)
            .and_then(|rest| rest.strip_prefix(':'))
        {
            Some(value) => break value.trim_start_matches(' '),
            None => lines = lines.split_once('\n')?.1,
        }
    };
    if let Some(rest) = value.strip_prefix('"') {
        return double_quoted(rest).filter(|value| !value.is_empty());
    }
    let value = value.lines().next()?.trim();
    let quoted = value
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    let value = quoted.map_or_else(|| value.to_owned(), |quoted| quoted.replace("''", "'"));
    (!value.is_empty()).then_some(value)
}

/// The double-quoted value after its first quotation mark. Lutris writes its files with PyYAML, which escapes each
/// character outside of ASCII and folds long values (YAML 1.2, sections 5.7 and 7.3.1).
fn double_quoted(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut characters = text.chars().peekable();
    loop {
        match characters.next()? {
            '"' => return Some(value),
            '\\' => {}
            other => {
                value.push(other);
                continue;
            }
        }
        let digits = match characters.next()? {
            '\n' => {
                while characters.next_if_eq(&' ').is_some() {}
                continue;
            }
            // The escapes of a line feed, a tab and a no-break space each become a space.
            'n' | 't' | '_' => {
                value.push(' ');
                continue;
            }
            'x' => 2,
            'u' => 4,
            'U' => 8,
            other => {
                value.push(other);
                continue;
            }
        };
        let mut code: u32 = 0;
        for _ in 0..digits {
            code = code << 4 | characters.next()?.to_digit(16)?;
        }
        value.push(char::from_u32(code)?);
    }
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

    #[test]
    fn quoted_names_are_read_without_escape_sequences() {
        let name = |value: &str| {
            let text = format!("game_slug: a\nname: {value}\nx: 1\n");
            game("a-1", &text).map(|game| game.name)
        };
        for (value, expected) in [
            (r#""Pok\xE9mon \"X\"""#, "Pokémon \"X\""),
            // PyYAML folds long names.
            ("\"\\u65E5\\\n  \\ \\U0001F600\"", "日 😀"),
            ("'It''s'", "It's"),
            ("It''s", "It''s"),
            // If the value is malformed or empty, the slug is the name.
            ("\"open", "a"),
            ("\"\\xZZ\"", "a"),
            ("", "a"),
        ] {
            assert_eq!(name(value).as_deref(), Some(expected), "{value}");
        }
    }
}
