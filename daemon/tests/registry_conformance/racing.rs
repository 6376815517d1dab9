//! Many at once: one wins, and everybody knows who.

use std::thread;

use leafd_core::registry::{Mode, RegistryError};
use leafd_core::{Tag, UnixMs};
use leafd_wire::Layout;

use crate::together::Together;
use crate::{Backend, compare_and_set, free, held, holder, holding, snapshot};

const WRITERS: usize = 4;

/// First a worker that nobody had, and then one that was given back.
pub fn one_of_many_takes_a_worker(backend: &mut dyn Backend) {
    const ROUNDS: u64 = 40;
    let mut registry = backend.connect(Mode::Leased);
    let under = snapshot(&mut *registry, 0..0).registry;
    let registries: Vec<_> = (0..WRITERS).map(|_| backend.connect(Mode::Leased)).collect();
    let together = Together::new(WRITERS);
    let won: Vec<Vec<(u64, bool, u64)>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(registries)
            .map(|(writer, mut registry)| {
                let (under, together) = (&under, &together);
                scope.spawn(move || {
                    let mut won = Vec::new();
                    for round in 0..ROUNDS {
                        for back in [false, true] {
                            let expected = back.then(|| free(1));
                            let mine = held(&format!("writer-{writer}"), 10);
                            together.wait();
                            let result = registry.compare_and_set(
                                under,
                                &compare_and_set(round, expected.as_ref(), &mine),
                            );
                            match result {
                                Ok(_) => won.push((round, back, writer)),
                                Err(RegistryError::Conflict { found, .. }) => {
                                    let found = found.expect("somebody has it").holding;
                                    assert_ne!(found, mine);
                                    assert_eq!(found.expires, UnixMs(10));
                                }
                                Err(error) => panic!("{error}"),
                            }
                            together.wait();
                            if won.last() == Some(&(round, back, writer)) && !back {
                                registry
                                    .compare_and_set(
                                        under,
                                        &compare_and_set(round, Some(&mine), &free(1)),
                                    )
                                    .unwrap();
                            }
                            together.wait();
                        }
                    }
                    won
                })
            })
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut won: Vec<_> = won.into_iter().flatten().collect();
    won.sort_unstable();
    let once = (0..ROUNDS).flat_map(|round| [(round, false), (round, true)]);
    assert!(won.iter().map(|(round, back, _)| (*round, *back)).eq(once), "{won:?}");
    for (worker, _, writer) in won.iter().filter(|(_, back, _)| *back) {
        let is = holding(&mut *registry, *worker);
        assert_eq!(is, Some(held(&format!("writer-{writer}"), 10)));
    }
}

/// Each lifts the bound by one, from whatever it finds.
pub fn no_renewal_is_lost(backend: &mut dyn Backend) {
    const RENEWALS: u64 = 25;
    let under = snapshot(&mut *backend.connect(Mode::Leased), 0..0).registry;
    let registries: Vec<_> = (0..WRITERS).map(|_| backend.connect(Mode::Leased)).collect();
    thread::scope(|scope| {
        for (writer, mut registry) in registries.into_iter().enumerate() {
            let under = &under;
            scope.spawn(move || {
                let (mut known, mut done) = (None, 0);
                while done < RENEWALS {
                    let bound = known
                        .as_ref()
                        .map_or(0, |known: &leafd_core::registry::LeaseRecord| known.expires.0);
                    let next = held(&format!("writer-{writer}"), bound + 1);
                    match registry
                        .compare_and_set(under, &compare_and_set(1, known.as_ref(), &next))
                    {
                        Ok(_) => (known, done) = (Some(next), done + 1),
                        Err(RegistryError::Conflict { found, .. }) => {
                            known = found.map(|found| found.holding);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let last = holding(&mut *backend.connect(Mode::Leased), 1).unwrap();
    assert_eq!(last.expires, UnixMs(RENEWALS * WRITERS as u64));
    assert!((0..WRITERS).any(|writer| last.holder == Some(holder(&format!("writer-{writer}")))));
}

pub fn one_definition_of_a_layout_wins(backend: &mut dyn Backend) {
    for round in 0..5 {
        let registries: Vec<_> = (0..WRITERS).map(|_| backend.connect(Mode::Leased)).collect();
        let together = Together::new(WRITERS);
        let name = Tag::parse(format!("layout-{round}").as_bytes()).unwrap();
        let agreed = thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(registries)
                .map(|(writer, mut registry)| {
                    let (together, name) = (&together, name.clone());
                    scope.spawn(move || {
                        let layout = Layout { epoch_ms: writer % 2, ..Layout::LEAF };
                        together.wait();
                        let agreed = registry.register_layouts(&[(name, layout)]);
                        assert!(
                            matches!(agreed, Ok(()) | Err(RegistryError::Refused(_))),
                            "{agreed:?}"
                        );
                        (layout, agreed.is_ok())
                    })
                })
                .collect();
            let all = threads.into_iter().map(|one| one.join().unwrap());
            all.filter_map(|(layout, agreed)| agreed.then_some(layout)).collect::<Vec<_>>()
        });
        assert_eq!(agreed.len(), WRITERS / 2, "{agreed:?}");
        assert!(agreed.iter().all(|layout| *layout == agreed[0]), "{agreed:?}");
        backend.connect(Mode::Leased).register_layouts(&[(name, agreed[0])]).unwrap();
    }
}
