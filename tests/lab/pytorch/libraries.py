"""A third job that knows what it waits for: `libraries.py --data DIR --edges FILE PHASE:SECONDS...`.

Each phase is a process of its own, most of them on libraries that others wrote: JAX, transformers' Trainer, its
`generate`. No step waits for the GPU unless the program would anyway; where the GPU had nothing to do is read from CUDA
events afterwards. `train.py` says what the log means.
"""

import os
import subprocess
import sys
import time
import traceback

import train
from train import GPU, WORKERS, args, edges, say, torch

SMALL = args.small


class Clock:
    """Moments at which the GPU came to a place in its queue, in the time of the wall."""

    def __init__(self):
        self.marks = []
        if GPU:
            torch.cuda.synchronize()
            self.start = torch.cuda.Event(enable_timing=True)
            self.start.record()
            torch.cuda.synchronize()
        self.wall = time.time()

    def mark(self, doing):
        """From here on in the GPU's queue it does this."""
        event = torch.cuda.Event(enable_timing=True) if GPU else None
        if GPU:
            event.record()
        self.marks.append((event, time.time(), doing))

    def tell(self):
        """Writes down all marks."""
        if GPU:
            torch.cuda.synchronize()
        for event, now, doing in self.marks:
            edges.at(doing, self.wall + self.start.elapsed_time(event) / 1e3 if GPU else now)
        edges.flush()


def started():
    """CUDA is there: from here on it is a start."""
    if GPU:
        torch.zeros(1, device="cuda")
    edges.at("cold_start")
    edges.flush()


def events(seconds, workers):
    """A vision transformer whose steps are not waited for."""
    started()
    job, batches = train.Job(), train.loader(train.Jpegs(args.data), workers)
    waiting = "dataloader_cpu" if workers == 1 else "unexplained host_noise;dataloader_cpu"
    clock, end, steps = Clock(), begin(seconds), 0
    sync, train.sync = train.sync, lambda: None
    clock.mark(waiting)
    while time.time() < end:
        batch = next(batches)
        clock.mark("productive")
        job.step(batch)
        clock.mark(waiting)
        steps += 1
    train.sync = sync
    clock.tell()
    say(f"{steps} steps")


def begin(seconds):
    """The start is over; when the phase ends."""
    say(f"phase {args.phases[0]}")
    return time.time() + seconds


def unwaited(seconds):
    events(seconds, WORKERS)


def unwaited_few(seconds):
    events(seconds, 1)


def trainer(seconds):
    """transformers' Trainer with its own loader; it saves now and then."""
    import transformers

    started()
    small = {"n_layer": 2, "n_embd": 64, "n_head": 2} if SMALL else {"n_layer": 24, "n_embd": 1024, "n_head": 16}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**small))
    length = 64 if SMALL else 1024

    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 20

        def __getitem__(self, n):
            tokens = torch.randint(0, 50000, (length,), generator=torch.Generator().manual_seed(n))
            return {"input_ids": tokens, "labels": tokens}

    waiting = "unexplained dataloader_cpu;host_noise"

    class Watch(transformers.TrainerCallback):
        end = clock = None

        def on_step_begin(self, *_, **__):
            if self.clock is None:
                self.clock, self.end = Clock(), begin(seconds)
            self.clock.mark("productive")

        def on_step_end(self, _, state, control, **__):
            saves = state.global_step % 60 == 0
            self.clock.mark("checkpoint" if saves else waiting)
            control.should_training_stop = time.time() > self.end
            return control

        def on_save(self, *_, **__):
            self.clock.mark(waiting)

    watch = Watch()
    how = transformers.TrainingArguments(
        output_dir=f"{args.data}/trainer", per_device_train_batch_size=2 if SMALL else 16, max_steps=1 << 20,
        save_steps=60, save_total_limit=1, logging_steps=10, report_to=[], bf16=GPU, disable_tqdm=True,
        dataloader_num_workers=2, use_cpu=not GPU)
    done = transformers.Trainer(model=model, args=how, train_dataset=Tokens(), callbacks=[watch]).train()
    watch.clock.tell()
    say(f"{done.global_step} steps")


def generate(seconds):
    """transformers' `generate`, one answer at a time: the profiler says for how much of it kernels ran."""
    import transformers

    started()
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
             "num_key_value_heads": 2} if SMALL else {"hidden_size": 2048, "intermediate_size": 5632,
             "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4}
    config = transformers.LlamaConfig(**small, eos_token_id=None, pad_token_id=0)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).to(args.device).eval()
    question = torch.randint(3, 30000, (1, 128), device=args.device)

    def answer(tokens):
        return model.generate(question, max_new_tokens=tokens, do_sample=False)

    answer(16)
    share = busy_share(lambda: answer(64)) if GPU else 0.5
    end, answers = begin(seconds), 0
    while time.time() < end:
        asked = time.time()
        answer(64)
        edges.at("productive", asked)
        edges.at("launch_bound", asked + (time.time() - asked) * share)
        answers += 1
    say(f"{answers} answers of 64 tokens, kernels ran for {share:.2f} of the time")


def busy_share(work):
    """Share of the time for which a kernel runs. What runs at once is counted once."""
    torch.cuda.synchronize()
    called = time.time()
    work()
    torch.cuda.synchronize()
    took_us = (time.time() - called) * 1e6
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    busy_us, until = 0.0, 0.0
    ranges = [(event.time_range.start, event.time_range.end) for event in profile.events()]
    for start, end in sorted(ranges):
        busy_us += max(0.0, end - max(start, until))
        until = max(until, end)
    return min(1.0, busy_us / took_us)


def images(seconds):
    """Images made by convolutions; each batch of them is written as PNG before the next is made."""
    from torchvision.io import encode_png

    started()
    layers = [torch.nn.Conv2d(64, 64, 3, padding=1) for _ in range(4)]
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3, padding=1), *layers, torch.nn.Conv2d(64, 3, 3, padding=1))
    network = network.to(args.device).to(torch.bfloat16)
    clock, end, made = Clock(), begin(seconds), 0
    side = 32 if SMALL else 512
    with torch.no_grad():
        while time.time() < end:
            clock.mark("productive")
            x = torch.randn(16, 3, side, side, device=args.device, dtype=torch.bfloat16)
            for _ in range(2 if SMALL else 80):
                x = x + 0.01 * network(x)
            there = (x.clamp(0, 1) * 255).to(torch.uint8)
            clock.mark("dataloader_cpu unexplained")
            for image in there.cpu():
                with open(f"{args.data}/{made % 64}.png", "wb") as file:
                    file.write(encode_png(image).numpy().tobytes())
                made += 1
    clock.tell()
    say(f"{made} images")


def rollouts(seconds):
    """Reinforcement learning: a world of NumPy and a small policy take turns, then the policy learns."""
    import numpy

    started()
    policy = torch.nn.Sequential(
        torch.nn.Linear(512, 2048), torch.nn.Tanh(), torch.nn.Linear(2048, 2048), torch.nn.Tanh(), torch.nn.Linear(2048, 512))
    policy = policy.to(args.device)
    optimiser = torch.optim.Adam(policy.parameters())
    matrix, state = numpy.random.rand(512, 512) / 256, numpy.random.rand(256, 512)
    clock, end, rounds = Clock(), begin(seconds), 0
    while time.time() < end:
        clock.mark("dataloader_cpu unexplained;launch_bound")
        seen = []
        for _ in range(4 if SMALL else 100):
            x = torch.from_numpy(state).float().to(args.device)
            with torch.no_grad():
                action = policy(x).cpu().numpy()
            for _ in range(8):
                state = numpy.tanh(state @ matrix + 0.1 * action)
            seen.append(x)
        clock.mark("productive")
        for _ in range(2 if SMALL else 60):
            x = torch.cat(seen)
            (policy(x) - x).square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()
        clock.mark("dataloader_cpu unexplained;launch_bound")
        float(x[0, 0])
        rounds += 1
    clock.tell()
    say(f"{rounds} rounds")


def jax_steps(seconds, wait_share):
    """JAX with its own allocator; the loss is read after each step. NumPy makes batches meanwhile or in between."""
    import jax
    import jax.numpy as jnp
    import numpy

    jax.device_put(numpy.zeros(1)).block_until_ready()
    edges.at("cold_start")
    edges.flush()
    width, depth, batch = (64, 2, 8) if SMALL else (8192, 32, 2048)
    keys = jax.random.split(jax.random.key(0), depth)
    weights = [jax.random.normal(key, (width, width), jnp.bfloat16) * 0.01 for key in keys]

    def loss(weights, x):
        for w in weights:
            x = jax.nn.gelu(x @ w)
        return jnp.mean(jnp.square(x.astype(jnp.float32)))

    @jax.jit
    def step(weights, x):
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return [w - 1e-4 * g for w, g in zip(weights, gradients)], value

    x = numpy.random.rand(batch, width).astype(jnp.bfloat16)
    for _ in range(4):
        called = time.time()
        weights, value = step(weights, x)
        float(value)
        step_s = time.time() - called
    say(f"a step takes {step_s:.3f} s")
    end, steps, chance = begin(seconds), 0, numpy.random.default_rng(0)
    while time.time() < end:
        if wait_share:
            edges.at("dataloader_cpu")
            until = time.time() + wait_share * step_s
            while time.time() < until:
                chance.random((256, 1024)).sort()
        edges.at("productive")
        weights, value = step(weights, x)
        float(value)
        steps += 1
    say(f"{steps} steps")


def jax_steady(seconds):
    jax_steps(seconds, 0)


def jax_late(seconds):
    jax_steps(seconds, 0.8)


def main():
    if len(args.phases) == 1:
        name, seconds = args.phases[0].split(":")
        say(f"starts {args.phases[0]}")
        try:
            globals()[name](float(seconds))
        except Exception:
            traceback.print_exc()
        edges.at("unallocated")
        edges.flush()
        sys.stdout.flush()
        os._exit(0)
    same = [argument for argument in sys.argv[1:] if argument not in args.phases]
    for phase in args.phases:
        subprocess.run([sys.executable, os.path.abspath(__file__), *same, phase], check=False)


if __name__ == "__main__":
    main()
