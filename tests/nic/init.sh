#!/busybox sh
# The first process of the guest: mounts what the host shares, then runs the commands that come over the virtio port.
busybox=/busybox
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sys /sys
$busybox mount -t devtmpfs dev /dev
for module in $($busybox cat /modules/order); do
    $busybox insmod "/modules/$module"
done

# The host's programs and libraries, and over them the modules of the kernel that runs here.
options=trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro
for share in kernel usr weir; do
    $busybox mount -t 9p -o $options $share /mnt/$share
done
$busybox mount -t overlay -o lowerdir=/mnt/kernel:/mnt/usr,ro usr /usr
for directory in bin sbin lib lib64; do
    $busybox ln -s usr/$directory /$directory
done
export PATH=/mnt/weir:/usr/sbin:/usr/bin HOME=/root
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
hostname guest
ip link set lo up

# For each line: its exit code and the number of bytes that it printed, then these.
for port in /sys/class/virtio-ports/*; do
    exec 3<>"/dev/${port##*/}"
done
echo "0 0" >&3
while IFS= read -r line <&3; do
    (eval "$line") >/tmp/printed 2>&1 </dev/null 3>&-
    code=$?
    echo "$code $(wc -c </tmp/printed)" >&3
    cat /tmp/printed >&3
done
