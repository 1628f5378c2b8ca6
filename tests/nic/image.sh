#!/usr/bin/env bash
# Makes the guest of `make test-nic`, in target/nic: Debian's kernel out of its package, and an initramfs that mounts
# this machine's /usr. Nothing of it is installed here.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/tests/nic
PATH=$PATH:/usr/sbin:/sbin

package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
if [[ -z $package ]]; then
    echo "no linux-image-amd64 among the packages: apt-get update; other systems than Debian have no such kernel" >&2
    exit 1
fi
version=${package#linux-image-}
mkdir -p target/nic
cd target/nic

if [[ ! -e kernel/boot/vmlinuz-$version ]]; then
    echo "Fetching the guest's kernel, $package …" >&2
    rm -rf kernel ./*.deb
    apt-get -qq -o APT::Sandbox::User= download "$package"
    dpkg-deb --extract ./*.deb unpacked
    rm ./*.deb
    depmod --basedir unpacked "$version"
    mv unpacked kernel
fi
ln -sfn "kernel/boot/vmlinuz-$version" vmlinuz

rm -rf root
mkdir -p root/{dev,etc/pam.d,mnt/kernel,mnt/usr,mnt/weir,modules,proc,root,run,sys,tmp,usr,var/lib/sudo}
cp "$(command -v busybox)" root/busybox
cp "$here/init.sh" root/init
cp -a /etc/alternatives root/etc/
chmod +x root/init
ln -s /run root/var/run
for module in virtio_pci virtio_console 9pnet_virtio 9p overlay; do
    modprobe --dirname kernel --set-version "$version" --show-depends "$module"
done | awk '!seen[$2]++ { print $2 }' | while read -r file; do
    cp "$file" root/modules/
    basename "$file" >>root/modules/order
done
echo 'root:x:0:0:root:/root:/bin/sh' >root/etc/passwd
echo 'root:x:0:' >root/etc/group
echo '127.0.0.1 localhost guest' >root/etc/hosts
echo 'root ALL=(ALL) NOPASSWD: ALL' >root/etc/sudoers
printf '%s sufficient pam_permit.so\n' auth account session >root/etc/pam.d/sudo
chmod 0440 root/etc/sudoers
(cd root && find . | busybox cpio -o -H newc -R 0:0 2>/dev/null) >initramfs
