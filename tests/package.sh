#!/bin/sh
# Installs, upgrades, removes and purges the Debian package in a root of its own: fakeroot tests/package.sh PROGRAM FOLDER
set -eux
program=$1 folder=$2 root=$2/root
build=$(dirname "$0")/../packaging/build
export DPKG_DEB_COMPRESSOR_TYPE=none PATH="$PATH:/usr/sbin:/sbin"
"$build" --binary "$program" --version 0.1.0 --out "$folder"
"$build" --binary "$program" --version 0.2.0 --out "$folder"

package() {
    # Packages that it depends on are those of the machine.
    dpkg --root="$root" --log=/dev/null --force-not-root --force-script-chrootless --force-depends "$@" </dev/null
}
mkdir -p "$root/etc" "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
: >"$root/var/lib/dpkg/status"
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
find "$root" | sort >"$folder/before"

package --install "$folder"/sarabande_0.1.0_*.deb
cd "$root"
user=$(sed -n 's/^sarabande:.*:\([0-9]*\):\([0-9]*\)::.*:\/usr\/sbin\/nologin$/\1:\2/p' etc/passwd)
rights() {
    # Secrets in the configuration are for the service only, and the service cannot change it.
    [ "$(stat -c '%u:%g %a' var/lib/sarabande)" = "$user 700" ]
    [ "$(stat -c '%u:%g %a' etc/sarabande)" = "0:${user#*:} 750" ]
    [ "$(stat -c '%u:%g %a' etc/sarabande/sarabande.toml)" = "0:${user#*:} 640" ]
}
rights
md5sum --quiet -c var/lib/dpkg/info/sarabande.md5sums
usr/bin/sarabande check etc/sarabande/sarabande.toml | tee "$folder/checked"
[ "$(wc -l <"$folder/checked")" = 1 ]
for page in usr/share/man/man?/*.gz; do
    LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" 2>&1 >"$folder/page" | tee "$folder/warnings"
    [ ! -s "$folder/warnings" ]
done
# The last page is sarabande.toml(5). It has each key of the reference.
[ "$(zgrep -c '^Value: ' "$page")" = "$("$program" check --reference | grep -c '^| `')" ]
bash -n usr/share/bash-completion/completions/sarabande
# All that the unit runs is there.
grep '^Exec' usr/lib/systemd/system/sarabande.service | grep -o '/[a-z/]*/sarabande[^ ]*' |
    while read -r path; do [ -e "${path#/}" ]; done
tar -tzf "$folder"/sarabande_0.1.0_*.tar.gz | grep -q '^sarabande_0.1.0_[a-z0-9]*/usr/bin/sarabande$'

# An upgrade keeps the edited configuration, its rights and the state.
echo '# edited' >>etc/sarabande/sarabande.toml
echo state >var/lib/sarabande/sarabande.token-key
package --install "$folder"/sarabande_0.2.0_*.deb
[ "$(dpkg-query --admindir=var/lib/dpkg -f '${Version} ${Status}' -W sarabande)" = '0.2.0 install ok installed' ]
grep -q '# edited' etc/sarabande/sarabande.toml
[ "$(ls etc/sarabande)" = sarabande.toml ]
[ "$(cat var/lib/sarabande/sarabande.token-key)" = state ]
rights

package --remove sarabande
[ ! -e usr/bin/sarabande ]
grep -q '# edited' etc/sarabande/sarabande.toml
[ -e var/lib/sarabande/sarabande.token-key ]

# A purge leaves the user only.
package --purge sarabande
cd "$folder"
find "$root" | grep -v -e "^$root/var/lib/dpkg/" -e "^$root/etc/\(passwd\|group\)-$" | sort >after
grep -v "^$root/var/lib/dpkg/" before | diff - after
