//! Tests of the look at the machine, on texts as Linux gives them.

use super::*;

const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
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

fn good() -> Machine {
    Machine {
        limits: LIMITS.replace("1024  ", "1048576").replace("8388608 ", "unlimited "),
        mounts: MOUNTS.to_owned(),
        swaps: "Filename\tType\tSize\tUsed\tPriority".to_owned(),
        kernel: "6.12.8-generic".to_owned(),
        io_uring_disabled: "0".to_owned(),
        swappiness: "60".to_owned(),
        max_map_count: "262144".to_owned(),
        somaxconn: "4096".to_owned(),
        wmem_max: "4194304".to_owned(),
        governor: "performance".to_owned(),
        irq_affinity: "f".to_owned(),
    }
}

fn demand() -> Demand {
    Demand {
        cores: 2,
        cpus: 2,
        ring_entries: 1024,
        registered_bytes: 512 << 20,
        backlog: 50,
        log_dirs: vec![PathBuf::from("/var/lib/odradek")],
    }
}

#[test]
fn a_good_machine_is_left_alone() {
    assert_eq!(good().check(&demand()), []);
}

#[test]
fn every_shortfall_is_found() {
    type Spoil = fn(&mut Machine, &mut Demand);
    let cases: [(&str, bool, Spoil); 13] = [
        ("io_uring", true, |m, _| m.io_uring_disabled = "2".into()),
        ("kernel", true, |m, _| m.kernel = "5.15.0-91".into()),
        ("cores", true, |_, d| d.cores = 3),
        ("open files", true, |m, _| m.limits = LIMITS.replace("8388608 ", "unlimited ")),
        ("open files", false, |m, _| m.limits = m.limits.replace("1048576", "65536  ")),
        ("locked memory", false, |m, _| m.limits = LIMITS.replace("1024  ", "1048576")),
        ("memory maps", false, |m, _| m.max_map_count = "1000".into()),
        ("swap", false, |m, _| m.swaps.push_str("\n/dev/vdc partition 1 0 -2")),
        ("listen backlog", false, |_, d| d.backlog = 10_000),
        ("socket buffers", false, |m, _| m.wmem_max = "212992".into()),
        ("CPU frequency", false, |m, _| m.governor = "powersave".into()),
        ("file system", true, |_, d| d.log_dirs = vec!["/tmp/x".into()]),
        ("file system", false, |_, d| d.log_dirs = vec!["/data/pool/x".into()]),
    ];
    for (what, serious, spoil) in cases {
        let (mut machine, mut demand) = (good(), demand());
        spoil(&mut machine, &mut demand);
        let findings = machine.check(&demand);
        let seen: Vec<(&str, bool)> = findings.iter().map(|f| (f.what.as_str(), f.serious)).collect();
        assert_eq!(seen, [(what, serious)], "{findings:?}");
    }
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
    let machine = Machine::read();
    assert!(machine.limit("Max open files").is_some(), "{}", machine.limits);
    machine.check(&demand());
}
