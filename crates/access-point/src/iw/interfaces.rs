//! `iw dev`: the wireless interfaces.
//!
//! ```text
//! phy#0
//!         Interface wlan0
//!                 ifindex 3
//!                 wdev 0x1
//!                 addr 02:00:00:00:00:00
//!                 ssid office
//!                 type managed
//!                 channel 36 (5180 MHz), width: 80 MHz, center1: 5210 MHz
//! ```

use super::{frequency, word_behind};
use crate::channel::Frequency;

/// Maximum number of interfaces that are read.
const MAX_INTERFACES: usize = 64;

/// Maximum length of an interface's name in bytes (`IFNAMSIZ` of linux/if.h, without the final zero).
const LONGEST_NAME: usize = 15;

/// A wireless interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The interface's mode: `managed`, `AP`, `monitor` and others.
    pub mode: String,
    /// Whether the interface has a network, as a connected client or as an access point.
    pub in_use: bool,
    /// The primary channel of the interface's network.
    pub frequency: Option<Frequency>,
    /// The width of the network's block of channels in MHz.
    pub width: Option<u32>,
}

/// Reads the interfaces. Those without a name are skipped; some drivers have such an interface for peer-to-peer groups.
#[must_use]
pub fn parse(text: &str) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("phy#") || line.starts_with("Unnamed/non-netdev") {
            // The lines after `Unnamed/non-netdev` belong to no named interface.
            interfaces.push(Interface {
                name: String::new(),
                mode: String::new(),
                in_use: false,
                frequency: None,
                width: None,
            });
        } else if let Some(name) = word_behind(line, "Interface ").filter(|name| is_name(name)) {
            interfaces.push(Interface {
                name: name.to_owned(),
                mode: String::new(),
                in_use: false,
                frequency: None,
                width: None,
            });
        } else if let Some(interface) = interfaces.last_mut() {
            if let Some(mode) = word_behind(line, "type ") {
                mode.clone_into(&mut interface.mode);
            } else if line.starts_with("ssid ") {
                interface.in_use = true;
            } else if line.starts_with("channel ") {
                let behind = |key: &str| line.split_once(key)?.1.split_whitespace().next();
                interface.frequency = behind(" (").and_then(frequency);
                interface.width = behind("width: ").and_then(|mhz| mhz.parse().ok());
            }
        }
        if interfaces.len() >= 2 * MAX_INTERFACES {
            break;
        }
    }
    interfaces.retain(|interface| !interface.name.is_empty());
    interfaces.truncate(MAX_INTERFACES);
    interfaces
}

/// Whether a text can be an interface's name. Paths, options and texts with blanks are refused.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(letter)
        && !text.starts_with(['-', '.'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn interfaces_have_mode_and_channel() {
        let text = "phy#1\n\tUnnamed/non-netdev interface\n\t\twdev 0x100000003\n\t\ttype P2P-device\n\
            \tInterface wlan1\n\t\tifindex 4\n\t\taddr 02:00:00:00:01:00\n\t\tssid office \n\t\ttype managed\n\
            \t\tchannel 36 (5180 MHz), width: 80 MHz, center1: 5210 MHz\n\t\ttxpower 20.00 dBm\n\
            phy#0\n\tInterface wlan0\n\t\tifindex 3\n\t\ttype AP\n";
        let all = parse(text);
        assert_eq!(all.len(), 2);
        assert_eq!(
            all[0],
            Interface {
                name: "wlan1".to_owned(),
                mode: "managed".to_owned(),
                in_use: true,
                frequency: Some(Frequency(5180)),
                width: Some(80),
            }
        );
        assert_eq!((all[1].mode.as_str(), all[1].in_use), ("AP", false));
    }

    #[test]
    fn names_are_neither_paths_nor_options() {
        for name in ["wlan0", "wlp2s0", "wlx00c0ca000001", "ap-1", "a.b_c"] {
            assert!(is_name(name), "{name}");
        }
        for other in ["", "-i", "..", "a/b", "a b", "a\n", "é", "0123456789abcdef"] {
            assert!(!is_name(other), "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_bounded_interfaces(text in "(\tInterface [a-z/]{1,20}\n|\\PC{0,20}\n){0,200}") {
            let all = parse(&text);
            prop_assert!(all.len() <= MAX_INTERFACES);
            prop_assert!(all.iter().all(|interface| is_name(&interface.name)));
        }
    }
}
