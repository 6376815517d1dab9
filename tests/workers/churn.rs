//! Pods that come and go without their disks, with few workers.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use leafd_tests::load::Drawn;
use leafd_tests::seed::seeds;

use crate::fleet::{Fleet, TAG, held, id_of};
use crate::registry::{Backend, Registry};

/// The number of pods that exist at the same time.
const AT_ONCE: usize = 4;

/// The number of starts of each pod.
const LIVES: usize = 10;

/// The number of clean stops for each kill.
const STOPPED_FOR_ONE_KILLED: usize = 9;

on_each_registry!(pods_that_come_and_go);

/// 8 workers are enough: 4 pods at a time, and one crash in ten lives of more than a second each, times a lease of 3 s.
fn pods_that_come_and_go<B: Backend>() {
    for mut random in seeds(1) {
        let mut fleet = Fleet::<B>::new(Registry::shared(), 0, "3s", &[]);
        let all = Mutex::new((Vec::new(), Duration::ZERO));
        let begun = Instant::now();
        let killed: Vec<usize> =
            (0..AT_ONCE).map(|_| random.usize(0..=STOPPED_FOR_ONE_KILLED)).collect();
        std::thread::scope(|scope| {
            for killed in &killed {
                scope.spawn(|| {
                    for life in 0..LIVES {
                        let pod = fleet.registry.host("3s").set("worker_range", "0..8");
                        let mut pod = pod.set("restart_grace", "0s");
                        pod.start();
                        let asked = Instant::now();
                        let mut ids = vec![id_of(&pod)];
                        let waited = asked.elapsed();
                        for _ in 0..10 {
                            std::thread::sleep(Duration::from_millis(50));
                            ids.extend(pod.raw().draw(TAG, 100));
                        }
                        assert!(ids.is_sorted());
                        if life % (STOPPED_FOR_ONE_KILLED + 1) == *killed {
                            pod.kill();
                        } else {
                            pod.stop();
                        }
                        let mut all = all.lock().unwrap();
                        all.0.extend(ids);
                        all.1 = all.1.max(waited);
                    }
                });
            }
        });
        let (mut ids, waited) = all.into_inner().unwrap();
        ids.sort_unstable();
        fleet.drawn.add(Drawn {
            ids: BTreeMap::from([(TAG.to_owned(), ids.clone())]),
            ..Drawn::default()
        });
        let fault = format!(
            "{} lives of pods without disks in {:.0} s on 8 workers, 1 in 10 killed; longest wait",
            AT_ONCE * LIVES,
            begun.elapsed().as_secs_f64()
        );
        fleet.row(&fault, ids.len() as u64, &BTreeMap::new(), Some(waited));
        let mut last = fleet.registry.host("3s").set("worker_range", "0..8");
        last.start();
        let id = id_of(&last);
        assert!(id > *ids.last().unwrap(), "whoever comes last starts above all before");
        assert!(held(&last).len() <= 8);
        fleet.add(&[id]);
        fleet.finish();
    }
}
