//! Tests of the look at the machine, on texts as Linux gives them.

use super::*;

const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
24 22 259:1 / /trim rw,noatime shared:1 - xfs /dev/nvme0n1p1 rw,discard,inode64
25 22 0:22 / /proc rw,nosuid shared:5 - proc proc rw
40 22 0:33 / /tmp rw,nosuid,nodev shared:9 - tmpfs tmpfs rw
41 22 0:34 / /mnt/net\\040disk rw shared:9 - nfs4 host:/x rw
42 22 0:35 / /data rw shared:9 - xfs /dev/vdb rw
43 42 0:36 / /data/pool rw - zfs pool rw";

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 524288               files
Max locked memory         8388608              8388608              bytes
Max address space         unlimited            unlimited            bytes";

fn disk(device: &str, name: &str) -> Disk {
    Disk {
        device: device.to_owned(),
        name: name.to_owned(),
        rotational: "0".to_owned(),
        scheduler: "[none] mq-deadline".to_owned(),
        request_kib: "1280".to_owned(),
        request_kib_max: "4096".to_owned(),
    }
}

fn good() -> Machine {
    Machine {
        limits: LIMITS.replace("1024  ", "1048576"),
        mounts: MOUNTS.to_owned(),
        swaps: "Filename\tType\tSize\tUsed\tPriority".to_owned(),
        kernel: "6.12.8-generic".to_owned(),
        io_uring_disabled: "0".to_owned(),
        swappiness: "60".to_owned(),
        max_map_count: "262144".to_owned(),
        somaxconn: "4096".to_owned(),
        wmem_max: "4194304".to_owned(),
        governor: "performance".to_owned(),
        stat: "cpu  1000 0 500 90000 300 0 20 6 0 0\ncpu0 1 2 3".to_owned(),
        clock: "tsc".to_owned(),
        isolated: "2-7".to_owned(),
        huge_pages: "always [madvise] never".to_owned(),
        quotas: vec!["max 100000".to_owned(), "-1 100000".to_owned()],
        processes: vec!["systemd".to_owned(), "odradek".to_owned()],
        disks: vec![disk("254:0", "vda"), disk("259:1", "nvme0n1")],
    }
}

fn demand() -> Demand {
    Demand { cores: 2, cpus: 8, backlog: 50, log_dirs: vec![PathBuf::from("/var/lib/odradek")] }
}

fn found(machine: &Machine, demand: &Demand) -> Vec<(&'static str, Weight)> {
    let checked = machine.check(demand);
    checked.iter().flat_map(|one| one.findings.iter().map(|finding| (one.what, finding.weight))).collect()
}

#[test]
fn a_good_machine_is_left_alone() {
    assert_eq!(found(&good(), &demand()), []);
    assert_eq!(good().check(&demand()).len(), CHECKS.len());
}

#[test]
fn every_shortfall_is_found() {
    use Weight::{Minor, Optional, Serious};
    type Spoil = fn(&mut Machine, &mut Demand);
    let cases: &[(&str, Weight, Spoil)] = &[
        ("io_uring", Serious, |m, _| m.io_uring_disabled = "2".into()),
        ("kernel", Serious, |m, _| m.kernel = "5.15.0-91".into()),
        ("cores", Serious, |_, d| d.cores = 9),
        ("CPU quota", Serious, |m, _| m.quotas.push("150000 100000".into())),
        ("stolen CPU time", Minor, |m, _| m.stat = "cpu  1000 0 500 90000 300 0 20 90 0 0".into()),
        ("CPU frequency", Minor, |m, _| m.governor = "powersave".into()),
        ("clock", Minor, |m, _| m.clock = "hpet".into()),
        ("CPU isolation", Optional, |m, _| m.isolated.clear()),
        ("interrupts", Optional, |m, _| m.processes.push("irqbalance".into())),
        ("open files", Serious, |m, _| m.limits = LIMITS.into()),
        ("open files", Minor, |m, _| m.limits = m.limits.replace("1048576", "65536  ")),
        ("huge pages", Minor, |m, _| m.huge_pages = "always madvise [never]".into()),
        ("memory maps", Minor, |m, _| m.max_map_count = "1000".into()),
        ("swap", Minor, |m, _| m.swaps.push_str("\n/dev/vdc partition 1 0 -2")),
        ("listen backlog", Minor, |_, d| d.backlog = 10_000),
        ("socket buffers", Minor, |m, _| m.wmem_max = "212992".into()),
        ("file system", Serious, |_, d| d.log_dirs = vec!["/tmp/x".into()]),
        ("file system", Minor, |_, d| d.log_dirs = vec!["/data/pool/x".into()]),
        ("discard", Minor, |_, d| d.log_dirs = vec!["/trim/x".into()]),
        ("I/O scheduler", Optional, |m, _| m.disks[0].scheduler = "none [mq-deadline]".into()),
        ("disk requests", Minor, |m, _| m.disks[0].request_kib = "128".into()),
    ];
    for (what, weight, spoil) in cases {
        let (mut machine, mut demand) = (good(), demand());
        spoil(&mut machine, &mut demand);
        assert_eq!(found(&machine, &demand), [(*what, *weight)], "{:?}", machine.check(&demand));
    }
    let covered: std::collections::BTreeSet<&str> = cases.iter().map(|(what, ..)| *what).collect();
    assert_eq!(covered.len(), CHECKS.len(), "a check without a case");
}

#[test]
fn the_tightest_quota_is_told() {
    let mut machine = good();
    machine.quotas = ["max 100000", "400000 100000", "75000 50000", "x y", ""].map(str::to_owned).to_vec();
    let advice = machine.cpu_quota().expect("there is one").advice;
    assert!(advice.contains("allows 1.5 CPUs' time in every 50 ms"), "{advice}");
}

/// Two directories on one disk ask it once; what is fine for a disk with a head is not told; a small limit of the hardware's
/// own cannot be changed.
#[test]
fn disks_are_asked_once_and_for_what_they_can_do() {
    let (mut machine, mut demand) = (good(), demand());
    demand.log_dirs = vec!["/a".into(), "/b".into()];
    machine.disks[0].scheduler = "[mq-deadline] none".into();
    assert_eq!(found(&machine, &demand), [("I/O scheduler", Weight::Optional)]);
    machine.disks[0].rotational = "1".into();
    assert_eq!(found(&machine, &demand), [("I/O scheduler", Weight::Optional)]);
    machine.disks[0].name = "sda".into();
    assert_eq!(found(&machine, &demand), []);
    machine.disks[0].request_kib = "512".into();
    machine.disks[0].request_kib_max = "512".into();
    assert_eq!(found(&machine, &demand), []);
}

#[test]
fn the_deepest_mount_counts() {
    for (directory, kind) in
        [("/a", "ext4"), ("/tmpfoo", "ext4"), ("/tmp", "tmpfs"), ("/mnt/net disk/a", "nfs4"), ("/data/x", "xfs")]
    {
        assert_eq!(Mount::of(MOUNTS, std::path::Path::new(directory)).unwrap().kind, kind, "{directory}");
    }
    assert_eq!(Mount::of("", std::path::Path::new("/a")), None);
}

#[test]
fn this_machine_can_be_read() {
    let machine = Machine::read().with_processes();
    assert!(machine.limit("Max open files").is_some(), "{}", machine.limits);
    let here = std::env::current_dir().expect("a folder to work in");
    machine.check(&Demand { log_dirs: vec![here], ..demand() });
    assert!(!machine.processes.is_empty() && !machine.stat.is_empty());
}
