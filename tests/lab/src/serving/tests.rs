use super::*;

/// The server after these seconds, with more CPUs than it can use, and the sum of its ticks.
fn after(server: &Server, seconds: usize) -> (Serving, Tick) {
    let mut serving = Serving::new(server, 0.0, 7);
    let mut all = Tick::default();
    for _ in 0..seconds * 100 {
        let tick = serving.tick(server, 0.01, Cpus { free: 16, holders: 1 });
        let sum = tick.kernels + tick.held_up + tick.unasked;
        assert!((sum - 0.01).abs() < 1e-9, "a tick is spent once: {tick:?}");
        all.kernels += tick.kernels;
        all.again += tick.again;
        all.held_up += tick.held_up;
        all.unasked += tick.unasked;
        all.front_cpu += tick.front_cpu;
    }
    (serving, all)
}

#[test]
fn a_load_is_the_share_of_time_with_a_request() {
    for load in [0.1, 0.5] {
        let server = Server::default();
        let server = Server { rate: server.rate_for(load), ..server };
        let (serving, all) = after(&server, 1200);
        assert!((all.unasked / 1200.0 - (1.0 - load)).abs() < 0.05, "{load}: {all:?}");
        assert!(all.held_up < 0.05 * all.kernels, "{all:?}");
        let expected = server.rate * 1200.0;
        let counts = &serving.counts;
        assert!((counts.requests - expected).abs() < 4.0 * expected.sqrt(), "{} of {expected}", counts.requests);
        assert!((counts.answer_tokens / counts.requests - 200.0).abs() < 20.0, "{}", counts.answer_tokens);
        assert!((counts.e2e.sum - counts.queue.sum - counts.inference.sum) / counts.requests < 0.02);
        assert_eq!(all.again, 0.0);
    }
}

#[test]
fn a_slow_front_end_leaves_the_gpu_without_kernels() {
    let slow = Server { clients: 40, per_request: 0.4, prompt: 3000.0, answer: 8.0, ..Server::default() };
    let (serving, all) = after(&slow, 120);
    assert!(all.held_up > 30.0 && all.unasked == 0.0, "{all:?}");
    assert!(all.front_cpu > 100.0, "{all:?}");
    let (_, all) = after(&Server { processes: 8, ..slow }, 120);
    assert!(all.held_up < 10.0, "{all:?}");
    assert!(serving.counts.requests > 100.0);
}

#[test]
fn a_full_memory_makes_tokens_be_computed_again() {
    for engine in [Engine::Vllm, Engine::Sglang] {
        let server = Server { engine, clients: 80, memory: 20_000, ..Server::default() };
        let (serving, all) = after(&server, 120);
        let counts = &serving.counts;
        assert!(counts.retracted > 50.0 && all.again > 1.0, "{engine:?}: {} {all:?}", counts.retracted);
        let (serving, all) = after(&Server { memory: 400_000, ..server }, 120);
        assert!(serving.counts.retracted == 0.0 && all.again == 0.0, "{engine:?}: {all:?}");
        assert_eq!(serving.counts.extended, serving.counts.effective);
    }
}

#[test]
fn what_is_in_memory_has_room() {
    let server = Server { clients: 60, memory: 15_000, engine: Engine::Sglang, ..Server::default() };
    let mut serving = Serving::new(&server, 0.0, 1);
    for _ in 0..6000 {
        serving.tick(&server, 0.01, Cpus { free: 16, holders: 1 });
        assert!(serving.memory(&server) <= 1.0, "{}", serving.memory(&server));
    }
}

#[test]
fn without_a_cpu_nothing_goes_on_but_kernels() {
    let server = Server { clients: 4, ..Server::default() };
    let mut serving = Serving::new(&server, 0.0, 1);
    let none = Cpus { free: 0, holders: 1 };
    let tick = serving.tick(&server, 0.01, none);
    assert_eq!((tick.kernels, tick.held_up, tick.engine_cpu, tick.front_cpu), (0.0, 0.01, 0.0, 0.0));
}
