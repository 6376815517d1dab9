//! All hosts of a registry mean the same by a layout's name.

use leafd_core::Tag;
use leafd_core::registry::Mode;
use leafd_wire::Layout;

use crate::{Backend, refused};

fn named(name: &str, layout: Layout) -> (Tag, Layout) {
    (Tag::parse(name.as_bytes()).unwrap(), layout)
}

const SMALL: Layout =
    Layout { time_bits: 40, worker_bits: 6, sequence_bits: 7, unit_ms: 10, epoch_ms: 1 };

pub fn layouts_are_agreed_upon(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    registry.register_layouts(&[]).unwrap();
    let longest = "n".repeat(128);
    let all = [
        named("snowflake", Layout::LEAF),
        named("small", SMALL),
        named("Small", Layout::LEAF),
        named(&longest, SMALL),
    ];
    registry.register_layouts(&all[..1]).unwrap();
    registry.register_layouts(&all).unwrap();
    registry.register_layouts(&all[2..]).unwrap();
    registry.register_layouts(&[all[1].clone(), all[1].clone()]).unwrap();
    let mut again = backend.connect(Mode::Permanent);
    again.register_layouts(&all).unwrap();
    let changes = [
        Layout { time_bits: 39, ..SMALL },
        Layout { worker_bits: 7, ..SMALL },
        Layout { sequence_bits: 6, ..SMALL },
        Layout { unit_ms: 1, ..SMALL },
        Layout { epoch_ms: 2, ..SMALL },
    ];
    for changed in changes {
        for name in ["small", &longest] {
            refused(again.register_layouts(&[named(name, changed)]), &[name]);
        }
    }
    refused(
        again.register_layouts(&[named("small", Layout { epoch_ms: 12_345, ..SMALL })]),
        &["12345", "epoch_ms=1,"],
    );
    again.register_layouts(&all).unwrap();
}

pub fn a_layout_that_differs_records_nothing(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    registry.register_layouts(&[named("b", SMALL)]).unwrap();
    let wrong = [named("a", SMALL), named("b", Layout::LEAF), named("c", SMALL)];
    refused(registry.register_layouts(&wrong), &["\"b\""]);
    let twice = [named("a", SMALL), named("a", Layout::LEAF)];
    refused(registry.register_layouts(&twice), &["\"a\""]);
    // Neither was recorded as it was then.
    registry.register_layouts(&[named("a", Layout::LEAF), named("c", Layout::LEAF)]).unwrap();
}
