//! `openuvr ap`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::ArgAction;
use openuvr_terminal::out;
use openuvr_terminal::shell;
use openuvr_terminal::signals::stop_gracefully_on_signals;
use openuvr_terminal::usage::UsageError;
use rustix::process::geteuid;

use crate::air::{self, Surroundings};
use crate::by_hostapd::{self, Programs};
use crate::by_network_manager;
use crate::card::{self, Card};
use crate::channel::{Band, Width};
use crate::choice::{Candidate, Selection};
use crate::credentials::{Credentials, Security};
use crate::hostapd::{AccessPoint, Tuning};
use crate::iw::interfaces::{self, Interface, is_name};
use crate::iw::regulatory::Country;
use crate::journal::{self, Journal};
use crate::nmcli::Profile;
use crate::programs::Program;
use crate::ssid::{self, Ssid};
use crate::{key_file, qr};

/// The maximum duration of a query.
const ANSWER: Duration = Duration::from_secs(10);

/// Make this machine the access point of its clients
///
/// A client that joins the access point reaches the host directly, without a router in between. The command scans the
/// bands. It uses the first band of --band that has a permitted channel. In this band, it selects the largest width up
/// to --width that the card and the country's rules permit, and then the channel with the least interference at this
/// width. The command shows the network's name and key as text and as a QR code. Ctrl-C ends the access point and
/// restores the card.
///
/// Run this command in addition to `openuvr host`. It needs the program iw. If NetworkManager manages the card, the
/// command needs nothing else, except root for --country. In this case, NetworkManager chooses the channel's width, and
/// 6 GHz, --radar and --channel survey are not supported. If NetworkManager does not manage the card, the command also
/// needs root, hostapd and dnsmasq.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Wireless interface [default: the only free interface]
    #[arg(long, value_name = "IFACE", value_parser = interface)]
    interface: Option<String>,
    /// Name of the network, 1 to 32 bytes [default: OpenUVR- and this machine's name]
    #[arg(long, value_name = "NAME", value_parser = name)]
    ssid: Option<Ssid>,
    /// File with the key in its first line, created if missing [default: access-point.key in the configuration folder]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Replace the key with a new one
    #[arg(long)]
    new_key: bool,
    /// Permit only WPA3; by default, clients with WPA2 may also join, except at 6 GHz
    #[arg(long)]
    wpa3: bool,
    /// Country whose radio rules apply, such as DE [default: the system's country]
    #[arg(long, value_name = "COUNTRY")]
    country: Option<Country>,
    /// Frequency bands in GHz, in order of preference; the first band with a permitted channel is used
    #[arg(long, value_name = "BANDS", value_delimiter = ',', default_value = "5,6,2.4", action = ArgAction::Set)]
    band: Vec<Band>,
    /// Channel: auto (the channel with the least interference), a number, or survey (hostapd surveys the permitted
    /// channels and chooses one)
    #[arg(long, value_name = "CHANNEL", default_value = "auto")]
    channel: ChannelChoice,
    /// Maximum width of the channel in MHz: 20, 40 or 80
    #[arg(long, value_name = "MHZ", default_value = "80")]
    width: Width,
    /// Permit DFS channels, on which the card must listen for radar for a minute or more before it transmits
    #[arg(long)]
    radar: bool,
    /// For the first band with a permitted channel, list the permitted channels with their interference, and exit
    #[arg(long)]
    list_channels: bool,
    /// Undo the changes of an interrupted `openuvr ap` or `openuvr client --via-ap`, and exit
    #[arg(long, conflicts_with_all = ["list_channels", "new_key"])]
    clean_up: bool,
}

/// How the channel is selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChannelChoice {
    /// The channel with the least interference.
    Auto,
    /// The channel that hostapd selects.
    Survey,
    /// This primary channel.
    Number(u32),
}

impl FromStr for ChannelChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<ChannelChoice, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(ChannelChoice::Auto),
            ("survey", _) => Ok(ChannelChoice::Survey),
            (_, Ok(number @ 1..=233)) => Ok(ChannelChoice::Number(number)),
            _ => Err("expected auto, survey or a number from 1 to 233".to_owned()),
        }
    }
}

fn interface(text: &str) -> Result<String, String> {
    let valid = is_name(text).then(|| text.to_owned());
    valid.ok_or_else(|| "expected the name of an interface, such as wlan0".to_owned())
}

fn name(text: &str) -> Result<Ssid, String> {
    let ssid = Ssid::new(text).filter(|ssid| ssid.text().is_some());
    ssid.ok_or_else(|| "expected 1 to 32 bytes of printable text".to_owned())
}

/// Defaults that the calling program provides.
#[derive(Debug)]
pub struct Defaults {
    /// The configuration folder.
    pub config_dir: Result<PathBuf>,
    /// This machine's name.
    pub machine: String,
}

impl Args {
    fn selection(&self) -> Selection {
        Selection {
            bands: self.band.clone(),
            channel: match self.channel {
                ChannelChoice::Number(number) => Some(number),
                ChannelChoice::Auto | ChannelChoice::Survey => None,
            },
            widest: self.width,
            radar: self.radar,
        }
    }

    /// An option of this command line that NetworkManager's access points do not support; `None` if there is none.
    fn option_of_hostapd(&self) -> Option<&'static str> {
        let options = [
            (self.channel == ChannelChoice::Survey, "--channel survey"),
            (self.radar, "--radar"),
            (self.band == [Band::Ghz6], "--band 6"),
        ];
        let used = options.into_iter().find(|(used, _)| *used)?;
        Some(used.1)
    }

    fn credentials(&self, defaults: Defaults) -> Result<Credentials> {
        let key = match (&self.key_file, defaults.config_dir) {
            (Some(file), _) => file.clone(),
            (None, folder) => folder?.join("access-point.key"),
        };
        let usual = || {
            let name = format!("OpenUVR-{}", defaults.machine);
            let end = name.floor_char_boundary(ssid::LONGEST);
            Ssid::new(&name[..end])
        };
        let ssid = self.ssid.clone().or_else(usual);
        Ok(Credentials {
            ssid: ssid.ok_or_else(|| anyhow!("no name for the network: use --ssid NAME"))?,
            key: key_file::open(&key, self.new_key)?,
            security: match self.wpa3 {
                true => Security::Wpa3,
                false => Security::Mixed,
            },
        })
    }
}

/// Runs an access point until a signal arrives, or carries out `--list-channels` or `--clean-up`.
///
/// # Errors
/// Returns a one-line error if this machine cannot be an access point, or if the access point ends by itself. After any
/// error, the changes to the card are reversed.
pub fn run(args: &Args, defaults: Defaults) -> Result<()> {
    let folder = journal::folder()?;
    let interrupted = journal::reverse_interrupted(&folder)?;
    for interface in &interrupted {
        eprintln!(
            "openuvr ap: undid the changes that an interrupted program had made to {interface}"
        );
    }
    if args.clean_up {
        if interrupted.is_empty() {
            eprintln!("openuvr ap: nothing to undo");
        }
        return Ok(());
    }
    let iw = Program::require("iw", "iw")?;
    let (card, found) = card::select(args.interface.as_deref(), &iw.run(&["dev"], ANSWER)?)?;
    let phy = air::abilities(&iw, &card)?;
    card.check_transmitter()?;
    if args.wpa3 && !phy.protects_management {
        bail!(
            "{} does not support WPA3: leave out --wpa3, or use another card",
            card.interface
        );
    }
    let nmcli = by_network_manager::owner(&card.interface);
    if let (Some(_), Some(option)) = (&nmcli, args.option_of_hostapd()) {
        bail!(UsageError::new(format!(
            "{option} needs hostapd, but NetworkManager manages {0}: leave out {option}, or run `nmcli device set {0} \
             managed no` first",
            card.interface
        )));
    }
    let programs = match &nmcli {
        Some(_) => None,
        None => {
            check_permission(&card, &found)?;
            Some(Programs::find()?)
        }
    };
    // From here on, a signal ends this command gracefully: the changes are reversed.
    let stop = stop_gracefully_on_signals()?;
    let mut journal = Journal::open(&folder, &card.interface)?;
    if let Some(country) = args.country {
        air::set_country(&iw, &card, country, &mut journal)?;
    }
    if let Some(programs) = &programs {
        programs.bring_up(&card, &mut journal)?;
    }
    eprintln!("openuvr ap: scanning with {}", card.interface);
    let around = air::look_around(&iw, nmcli.as_ref(), &card, phy)?;
    let mut selection = args.selection();
    if nmcli.is_some() {
        // NetworkManager's access points have no 6 GHz band.
        selection.bands.retain(|band| *band != Band::Ghz6);
    }
    let ranked = around.rank(&selection)?;
    if args.list_channels {
        print!("{}", table(&ranked, &around));
        return Ok(());
    }
    let best = ranked
        .first()
        .ok_or_else(|| anyhow!("no channel is permitted"))?;
    let mut credentials = args.credentials(defaults)?;
    if best.block.band() == Band::Ghz6 {
        credentials.security = Security::Wpa3;
    }
    report_choice(best, &ranked, &around, args.channel);
    let show = || show(&credentials, around.phy.protects_management, &card, &iw);
    match (&nmcli, &programs) {
        (Some(nmcli), _) => {
            let profile = Profile::of_access_point(&card.interface, &credentials, &best.block)?;
            by_network_manager::start(nmcli, &profile, &mut journal)?;
            show();
            by_network_manager::follow(nmcli, &profile, &stop)
        }
        (None, Some(programs)) => {
            let access_point = AccessPoint {
                interface: &card.interface,
                credentials: &credentials,
                country: around.country(),
                tuning: match args.channel {
                    ChannelChoice::Survey => Tuning::survey(&ranked),
                    ChannelChoice::Auto | ChannelChoice::Number(_) => Tuning::Block(best.block),
                },
                abilities: (around.phy.bands.get(&best.block.band()).copied()).unwrap_or_default(),
                protects_management: around.phy.protects_management,
            };
            let mode = found.mode.as_str();
            follow(
                programs,
                &access_point,
                best,
                mode,
                &mut journal,
                &stop,
                show,
            )
        }
        (None, None) => Ok(()),
    }
}

/// Starts the access point, shows its name and key, and monitors it until `stop` is set. Its programs end before the
/// changes are reversed.
fn follow(
    programs: &Programs,
    access_point: &AccessPoint<'_>,
    chosen: &Candidate,
    mode: &str,
    journal: &mut Journal,
    stop: &AtomicBool,
    show: impl FnOnce(),
) -> Result<()> {
    let running = by_hostapd::start(programs, access_point, chosen, mode, journal, stop)?;
    let Some(mut running) = running else {
        return Ok(());
    };
    show();
    running.follow(stop)
}

/// Returns an error if this process does not run as root, or if the interface is in use.
fn check_permission(card: &Card, found: &Interface) -> Result<()> {
    let interface = &card.interface;
    if !geteuid().is_root() {
        bail!(
            "can't make {interface} an access point: NetworkManager does not manage it, so this requires root; run sudo \
             {} ap",
            shell::for_sudo()
        );
    }
    if found.in_use {
        let state = match found.mode.as_str() {
            "AP" => "is already the access point of another program: end that program",
            _ => "is connected to a network: disconnect it",
        };
        bail!("{interface} {state}, or use another card (--interface)");
    }
    Ok(())
}

fn report_choice(
    best: &Candidate,
    ranked: &[Candidate],
    around: &Surroundings,
    choice: ChannelChoice,
) {
    let country = around
        .country()
        .map_or_else(String::new, |country| match country.is_one() {
            true => format!(", radio rules of {country}"),
            false => ", no country set (--country)".to_owned(),
        });
    let networks = around.networks();
    eprintln!("openuvr ap: networks in range: {networks}{country}");
    let Candidate {
        block,
        interference,
        ..
    } = best;
    match choice {
        ChannelChoice::Survey => {
            let count = ranked.len();
            eprintln!("openuvr ap: hostapd surveys {count} channels and chooses one");
        }
        ChannelChoice::Auto => eprintln!(
            "openuvr ap: of {} possible channels, {block} has the least interference: {interference}",
            ranked.len()
        ),
        ChannelChoice::Number(_) => eprintln!("openuvr ap: {block}: {interference}"),
    }
    if around
        .domain
        .as_ref()
        .is_some_and(|domain| domain.is_indoors(block.edges()))
    {
        eprintln!("openuvr ap: the country permits this channel indoors only");
    }
}

/// Shows the network's name and key. `protects_management` states whether the card supports WPA3.
fn show(credentials: &Credentials, protects_management: bool, card: &Card, iw: &Program) {
    let listed = iw.run(&["dev"], ANSWER).unwrap_or_default();
    let now = interfaces::parse(&listed)
        .into_iter()
        .find(|one| one.name == card.interface);
    let channel = now.and_then(|now| {
        let frequency = now.frequency?;
        let width = now
            .width
            .map_or_else(String::new, |mhz| format!(", {mhz} MHz wide"));
        let number = frequency.channel()?;
        Some(format!(" at channel {number} ({} MHz{width})", frequency.0))
    });
    let channel = channel.unwrap_or_default();
    print!(
        "{}",
        invitation(credentials, protects_management, out::is_terminal())
    );
    eprintln!(
        "openuvr ap: {} is an access point{channel}; Ctrl-C ends the access point",
        card.interface
    );
}

/// The text for clients and their users.
fn invitation(credentials: &Credentials, protects_management: bool, colours: bool) -> String {
    let text = credentials.to_string();
    let mut all = String::new();
    for line in qr::lines(&text, colours).unwrap_or_default() {
        let _ = writeln!(all, "{line}");
    }
    let security = match (credentials.security, protects_management) {
        (Security::Mixed, true) => "WPA2 and WPA3",
        (Security::Mixed, false) => "WPA2",
        (Security::Wpa3, _) => "WPA3",
    };
    let _ = writeln!(all, "Name      {}", credentials.ssid);
    let _ = writeln!(all, "Key       {}", credentials.key.text());
    let _ = writeln!(all, "Security  {security}");
    let word = shell::word(text);
    let _ = writeln!(all, "Client    openuvr client --via-ap {word}");
    all
}

fn table(ranked: &[Candidate], around: &Surroundings) -> String {
    let country = around
        .country()
        .map_or("unknown".to_owned(), |country| country.to_string());
    let mut text = format!("country {country}, {} networks\n", around.networks());
    let _ = writeln!(text, "CHANNEL  MHZ   WIDTH  BUSY   INTERFERENCE");
    for Candidate {
        block,
        radar_check,
        interference,
    } in ranked
    {
        let (number, mhz, width) = (block.number(), block.primary().0, block.width().mhz());
        let busy = 100.0 * interference.busy;
        let radar = radar_check.map_or_else(String::new, |check| {
            format!("; listens for radar for {} s first", check.as_secs())
        });
        let _ = writeln!(
            text,
            "{number:<7}  {mhz}  {width:<5}  {busy:>3.0} %  {interference}{radar}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;
    use crate::passphrase::Passphrase;

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        let command = Args::augment_args(Command::new("ap"));
        let matches = command.try_get_matches_from([&["ap"], words].concat())?;
        Args::from_arg_matches(&matches)
    }

    #[test]
    fn options_are_values_with_types() {
        let usual = parse(&[]).unwrap();
        assert_eq!(usual.band, [Band::Ghz5, Band::Ghz6, Band::Ghz2_4]);
        assert_eq!(usual.selection().widest, Width::Mhz80);
        let given = parse(&[
            "--band",
            "2.4",
            "--channel",
            "6",
            "--width",
            "20",
            "--country",
            "DE",
        ]);
        let selection = given.unwrap().selection();
        assert_eq!(
            (selection.channel, selection.bands),
            (Some(6), vec![Band::Ghz2_4])
        );
        for words in [
            ["--band", "7"],
            ["--channel", "0"],
            ["--channel", "best"],
            ["--width", "160"],
            ["--country", "Germany"],
            ["--interface", "../x"],
            ["--ssid", ""],
            ["--ssid", "a\nb"],
        ] {
            assert!(parse(&words).is_err(), "{words:?}");
        }
        assert!(parse(&["--clean-up", "--new-key"]).is_err());
    }

    #[test]
    fn a_long_machine_name_is_cut_to_a_networks_name() {
        let folder = tempfile::tempdir().unwrap();
        let defaults = Defaults {
            config_dir: Ok(folder.path().to_owned()),
            machine: "é".repeat(40),
        };
        let credentials = parse(&[]).unwrap().credentials(defaults).unwrap();
        assert_eq!(
            credentials.ssid.text(),
            Some(format!("OpenUVR-{}", "é".repeat(12)).as_str())
        );
        assert!(folder.path().join("access-point.key").exists());
    }

    #[test]
    fn the_invitation_is_a_command_for_a_shell() {
        let credentials = Credentials {
            ssid: Ssid::new("it's").unwrap(),
            key: Passphrase::new("12345678").unwrap(),
            security: Security::Mixed,
        };
        let text = invitation(&credentials, true, false);
        assert!(text.contains("Key       12345678\nSecurity  WPA2 and WPA3\n"));
        let older = invitation(&credentials, false, false);
        assert!(older.contains("Security  WPA2\n"), "{older}");
        assert!(text.ends_with("--via-ap 'WIFI:T:WPA;S:it'\\''s;P:12345678;;'\n"));
    }
}
