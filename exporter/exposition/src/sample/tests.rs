use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn labels_are_what_they_were_made_of(pairs in proptest::collection::btree_map(".{0,5}", ".{0,200}", 0..6)) {
        let labels = Labels::new(pairs.iter().rev());
        let kept: Vec<_> = pairs.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| (&**n, &**v)).collect();
        prop_assert_eq!(labels.iter().collect::<Vec<_>>(), kept.clone());
        for (name, value) in kept {
            prop_assert_eq!(labels.get(name), Some(value));
        }
    }

    #[test]
    fn order_is_that_of_the_pairs(a in proptest::collection::btree_map("[a-c]{1,3}", "[a-c]{1,70}", 0..4),
                                  b in proptest::collection::btree_map("[a-c]{1,3}", "[a-c]{1,70}", 0..4)) {
        prop_assert_eq!(Labels::new(&a).cmp(&Labels::new(&b)), a.iter().cmp(b.iter()));
    }
}

#[test]
fn a_batch_gives_back_its_series() {
    let sample = |time_ms| Sample { time_ms, value: 0.5 };
    let mut batch = Batch::default();
    batch.add(sample(1));
    batch.add(sample(2));
    batch.end(&mut [("b", "2"), ("__name__", "m"), ("gone", "")]);
    batch.end(&mut [("__name__", "without_samples")]);
    let long = "x".repeat(5000);
    batch.push(Labels::new([("__name__", "n"), ("long", &long)]).as_ref(), &[sample(3)]);
    assert_eq!((batch.len(), batch.sample_count()), (2, 3));
    let series: Vec<Series> = batch.clone().into_iter().collect();
    assert_eq!(series[0].labels, Labels::new([("__name__", "m"), ("b", "2")]));
    assert_eq!(series[0].samples, [sample(1), sample(2)]);
    assert_eq!((series[1].labels.get("long"), series[1].samples.len()), (Some(&*long), 1));
    assert!(batch.mentions("long") && !batch.mentions("short"));
    let mut shorter = batch.clone();
    assert_eq!(shorter.last_labels().metric(), "n");
    shorter.take_back();
    assert_eq!((shorter.last_labels(), shorter.sample_count()), (series[0].labels.as_ref(), 2));
    shorter.take_back();
    assert_eq!(shorter.last_labels().key(), "");
    assert_eq!(shorter, Batch::default());
    assert_eq!(series.into_iter().collect::<Batch>(), batch);
}
