//! The time of the pool's micro-benchmarks: `cargo bench -p tenure-micro --features time`. `-- NAME` selects those
//! whose name contains it.
//!
//! `proof/micro` describes the cases. CI checks not the time but the instructions: `make instructions`.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tenure_micro::{ALL, Meter};

/// Adds up the times of the measured pieces.
#[derive(Default)]
struct Stopwatch(Duration);

impl Meter for Stopwatch {
    fn measure(&mut self, what: &mut dyn FnMut()) {
        let began = Instant::now();
        what();
        self.0 += began.elapsed();
    }
}

fn core(criterion: &mut Criterion) {
    for bench in ALL {
        let mut case = None;
        let mut group = criterion.benchmark_group("core");
        group.throughput(Throughput::Elements(bench.items));
        group.bench_function(bench.name, |bencher| {
            // Built only when its turn comes: one case holds 20,000 jobs.
            let case = case.get_or_insert_with(bench.build);
            bencher.iter_custom(|runs| {
                let mut stopwatch = Stopwatch::default();
                for _ in 0..runs {
                    case.run(&mut stopwatch);
                }
                stopwatch.0
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().without_plots().warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = core
}
criterion_main!(benches);
