//! `cargo bench -p odradek-benches`: the pure steps on the path of a request, timed.

use criterion::{Criterion, criterion_group, criterion_main};

fn all(c: &mut Criterion) {
    for case in odradek_benches::micro::CASES {
        let mut step = (case.make)();
        c.bench_function(case.name, |bencher| bencher.iter(&mut step));
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(std::time::Duration::from_secs(1));
    targets = all
}
criterion_main!(benches);
