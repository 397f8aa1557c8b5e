//! Game pads through the kernel of the host: `--pads uinput`.

use super::VGA;
use super::rig::Rig;

/// Prints the event device of the host's pad. Its physical location starts with `openuvr`.
const FIND: &str = "awk '/^P: Phys=openuvr/ { own = 1 } own && /^H: Handlers=/ { match($0, /event[0-9]+/); \
                    print substr($0, RSTART, RLENGTH); exit }' /proc/bus/input/devices";

#[test]
fn a_pad_of_the_client_is_a_device_of_the_host() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.host_options = "--pads uinput";
    rig.stream_events(VGA);
    let machine = &mut rig.machine;
    machine
        .succeed(&format!(
            "cat >/tmp/pad.pl <<'END'\n{}\nEND",
            include_str!("pad.pl")
        ))
        .unwrap();
    machine
        .succeed("setsid sh -c 'echo $$ >/tmp/pad.pid; exec perl /tmp/pad.pl' >/tmp/pad.log 2>&1 &")
        .unwrap();
    let device = machine
        .wait_for(&format!("test -n \"$({FIND})\" && {FIND}"))
        .unwrap();
    let device = device.trim();
    // EVIOCGKEY: a bit for each key that is down.
    let down = format!(
        "perl -e 'open F, \"<\", \"/dev/input/{device}\" or die; $bits = \"\\0\" x 96; \
         ioctl(F, 0x80604518, $bits) or die; print vec($bits, 0x130, 1)'"
    );
    assert_eq!(machine.succeed(&down).unwrap(), "0");
    machine.succeed("touch /tmp/press").unwrap();
    machine.wait_for(&format!("test $({down}) = 1")).unwrap();
    // The pad is unplugged.
    machine.succeed("kill $(cat /tmp/pad.pid)").unwrap();
    machine.wait_for(&format!("test -z \"$({FIND})\"")).unwrap();
}
