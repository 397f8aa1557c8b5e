# A game pad that the kernel creates (uinput). It presses its first button once the file /tmp/press exists.
open my $device, '+<', '/dev/uinput' or die "uinput: $!";
sub request { ioctl($device, $_[0], $_[1] + 0) or die "request $_[0]: $!" }
# UI_SET_EVBIT, UI_SET_KEYBIT, UI_SET_ABSBIT
request(0x40045564, $_) for 1, 3;
request(0x40045565, $_) for 0x130, 0x131, 0x133, 0x134, 0x136, 0x137, 0x13a .. 0x13e;
request(0x40045567, $_) for 0 .. 5, 0x10, 0x11;
# struct uinput_user_dev: a wireless pad of Microsoft, sticks from -32768 to 32767.
my @least = (-32768) x 64;
my @greatest = (32767) x 64;
my @none = (0) x 64;
syswrite $device, pack('a80 S4 L l64 l64 l64 l64', 'Test pad', 3, 0x45e, 0x28e, 0x110, 0, @greatest, @least, @none, @none);
# UI_DEV_CREATE
request(0x5501, 0);
select undef, undef, undef, 0.1 until -e '/tmp/press';
syswrite $device, pack('q2 S2 l q2 S2 l', 0, 0, 1, 0x130, 1, 0, 0, 0, 0, 0);
sleep 1000;
