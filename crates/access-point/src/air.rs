//! The networks around a wireless card, and the radio rules that apply to the card, as `iw` reports them.

use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, Result, bail};

use crate::card::Card;
use crate::choice::{self, Candidate, Selection};
use crate::iw::channels::{self, Channel};
use crate::iw::phy::{self, Phy};
use crate::iw::regulatory::{self, Country, Domain};
use crate::iw::scan::{self, Network};
use crate::iw::survey::{self, Survey};
use crate::journal::Journal;
use crate::nmcli;
use crate::programs::Program;

/// How long a query to the kernel may take.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a scan may take (guess). Three bands with passive channels need 10 s.
const SCAN: Duration = Duration::from_secs(60);

/// Maximum number of retries of a scan, one per second, while another program scans with the card.
const TRIES: u32 = 10;

/// The maximum duration of a change of country (guess). During a change, the kernel reads the file with the radio rules
/// of all countries.
const COUNTRY_CHANGE: Duration = Duration::from_secs(5);

/// The radio rules, and the networks around the card.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) phy: Phy,
    pub(crate) domain: Option<Domain>,
    channels: Vec<Channel>,
    networks: Vec<Network>,
    survey: Vec<Survey>,
}

impl Surroundings {
    /// Ranks the channels.
    ///
    /// # Errors
    /// Returns an error if none is permitted.
    pub(crate) fn rank(&self, selection: &Selection) -> Result<Vec<Candidate>> {
        let air = choice::Air {
            networks: &self.networks,
            survey: &self.survey,
        };
        Ok(choice::rank(&self.channels, &self.phy, selection, air)?)
    }

    /// The number of networks that were found.
    pub(crate) fn networks(&self) -> usize {
        self.networks.len()
    }

    /// The country whose rules apply.
    pub(crate) fn country(&self) -> Option<Country> {
        self.domain.as_ref().map(|domain| domain.country)
    }
}

/// The abilities of a card that can be an access point.
///
/// # Errors
/// Returns an error if the card cannot be an access point, or if `iw` fails.
pub(crate) fn abilities(iw: &Program, card: &Card) -> Result<Phy> {
    let phy = phy::parse(&iw.run(&["phy", &card.phy, "info"], ANSWER)?);
    if !phy.access_point {
        bail!(
            "{} can't be an access point: its driver does not support this mode (see `iw phy {} info`); use another card \
             (--interface)",
            card.interface,
            card.phy
        );
    }
    Ok(phy)
}

/// Scans with `iw`, as root, or with NetworkManager. For `iw`, the interface must be up.
///
/// # Errors
/// Returns an error if a program fails.
pub(crate) fn look_around(
    iw: &Program,
    nmcli: Option<&Program>,
    card: &Card,
    phy: Phy,
) -> Result<Surroundings> {
    let interface = card.interface.as_str();
    let networks = match nmcli {
        Some(nmcli) => nmcli::networks(&nmcli.run(&nmcli::scan(interface), SCAN)?),
        None => scan::parse(&scan_with(iw, interface)?),
    };
    // Many drivers report no survey.
    let survey = iw
        .run(&["dev", interface, "survey", "dump"], ANSWER)
        .unwrap_or_default();
    let channels = iw.run(&["phy", &card.phy, "channels"], ANSWER)?;
    Ok(Surroundings {
        phy,
        domain: domain(iw, card)?,
        channels: channels::parse(&channels),
        networks,
        survey: survey::parse(&survey),
    })
}

fn scan_with(iw: &Program, interface: &str) -> Result<String> {
    let mut tries = 0;
    loop {
        match iw.run(&["dev", interface, "scan", "flush"], SCAN) {
            // EBUSY: another program scans.
            Err(why) if why.to_string().contains("(-16)") && tries < TRIES => {
                tries += 1;
                thread::sleep(Duration::from_secs(1));
            }
            result => return result,
        }
    }
}

/// The radio rules that apply to a card.
fn domain(iw: &Program, card: &Card) -> Result<Option<Domain>> {
    Ok(regulatory::of_card(&domains(iw)?, card.index).cloned())
}

fn domains(iw: &Program) -> Result<Vec<Domain>> {
    Ok(regulatory::parse(&iw.run(&["reg", "get"], ANSWER)?))
}

/// Sets the country whose radio rules apply.
///
/// # Errors
/// Returns an error if the card or the kernel applies other rules.
pub(crate) fn set_country(
    iw: &Program,
    card: &Card,
    wanted: Country,
    journal: &mut Journal,
) -> Result<()> {
    let domains = domains(iw)?;
    let before = regulatory::of_card(&domains, card.index);
    if before.is_some_and(|domain| domain.country == wanted) {
        return Ok(());
    }
    if let Some(domain) = before.filter(|domain| domain.self_managed) {
        bail!(
            "the firmware of {} sets its country to {}, which can't be changed to {wanted}: leave out --country, or use \
             another card",
            card.interface,
            domain.country
        );
    }
    // `iw reg set` changes only the global country, so the global country is the one to restore.
    let country = regulatory::global_country(&domains);
    journal.record(|changes| changes.country = Some(country.to_string()))?;
    iw.run(&["reg", "set", &wanted.to_string()], ANSWER)
        .context("can't set the country")?;
    let end = Instant::now() + COUNTRY_CHANGE;
    while domain(iw, card)?.is_none_or(|domain| domain.country != wanted) {
        if Instant::now() >= end {
            let remedy = match fs::exists("/lib/firmware/regulatory.db") {
                Ok(true) => "check that this is a country code of ISO 3166",
                _ => "the countries' radio rules are missing: run apt install wireless-regdb",
            };
            bail!("the kernel does not accept the country {wanted}: {remedy}");
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
