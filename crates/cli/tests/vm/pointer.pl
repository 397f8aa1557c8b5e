# A pointing device: `pointer.pl touch|mouse`. Each line of its standard input becomes a report: three numbers for each
# event (type, code, value).
my $touch = $ARGV[0] eq 'touch';
open my $device, '+<', '/dev/uinput' or die "uinput: $!";
sub request { ioctl($device, $_[0], $_[1] + 0) or die "request $_[0]: $!" }
# UI_SET_EVBIT: EV_KEY, and EV_ABS or EV_REL.
request(0x40045564, $_) for 1, $touch ? 3 : 2;
# UI_SET_KEYBIT: BTN_TOUCH, or BTN_LEFT to BTN_MIDDLE.
request(0x40045565, $_) for $touch ? 0x14a : (0x110 .. 0x112);
if ($touch) {
  # UI_SET_ABSBIT: ABS_X, ABS_Y. UI_SET_PROPBIT: INPUT_PROP_DIRECT.
  request(0x40045567, $_) for 0, 1;
  request(0x4004556e, 1);
} else {
  # UI_SET_RELBIT: REL_X, REL_Y, REL_WHEEL.
  request(0x40045566, $_) for 0, 1, 8;
}
# struct uinput_user_dev: axes from 0 to 32767.
my @greatest = (32767) x 64;
my @none = (0) x 64;
syswrite $device, pack('a80 S4 L l64 l64 l64 l64', "Test $ARGV[0]", 3, 0x1234, 1, 1, 0, @greatest, @none, @none, @none);
# UI_DEV_CREATE
request(0x5501, 0);
while (my $line = <STDIN>) {
  my @numbers = split ' ', $line;
  my $report = '';
  while (my @event = splice @numbers, 0, 3) {
    $report .= pack('q2 S2 l', 0, 0, @event);
  }
  # The report ends with SYN_REPORT.
  syswrite $device, $report . pack('q2 S2 l', 0, 0, 0, 0, 0);
}
