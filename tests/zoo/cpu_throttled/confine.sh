# Runs a program in a control group with an eighth of a CPU: version 2 of the kernel's groups, or 1.
# A healthy twin runs without.
case " $* " in *" healthy "*) exec "$@" ;; esac
root=/sys/fs/cgroup
if [ -e $root/cgroup.controllers ]; then
    mkdir -p $root/zoo-eighth && echo "12000 100000" >$root/zoo-eighth/cpu.max
    echo $$ >$root/zoo-eighth/cgroup.procs
else
    mkdir -p $root/cpu/zoo-eighth && echo 100000 >$root/cpu/zoo-eighth/cpu.cfs_period_us
    echo 12000 >$root/cpu/zoo-eighth/cpu.cfs_quota_us
    echo $$ >$root/cpu/zoo-eighth/cgroup.procs
fi
exec "$@"
