//! The button mappings of this machine's game pads.

use anyhow::{Context as _, Result};
use openuvr_media::input_source::pads::mapping::Database;

use crate::config::ClientConfig;

/// Opens the database of game pads; `None` if pads are not sent. Invalid lines are reported.
pub(super) fn database(config: &ClientConfig) -> Result<Option<Database>> {
    if !config.sends_pads() {
        return Ok(None);
    }
    let (mut database, mut complaints) = (Database::default(), Vec::new());
    if let Some(file) = &config.pad_db {
        let shown = file.display().to_string();
        let bytes =
            std::fs::read(file).with_context(|| format!("can't read the pad database {shown}"))?;
        // Names in the file may use any encoding.
        database.add(&String::from_utf8_lossy(&bytes), &shown, &mut complaints);
    }
    if let Ok(text) = std::env::var(SDL_PADS) {
        database.add(&text, SDL_PADS, &mut complaints);
    }
    for complaint in complaints {
        eprintln!("openuvr client: {complaint}");
    }
    Ok(Some(database))
}

/// The variable that SDL reads for mappings of game pads.
const SDL_PADS: &str = "SDL_GAMECONTROLLERCONFIG";
