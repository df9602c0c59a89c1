"""A PyTorch job that knows what it waits for: `train.py --data DIR --edges FILE PHASE:SECONDS...`.

It trains a vision transformer on JPEG files, one phase after another, and writes down what the GPU did from when on:
lines of microseconds since 1970, a class and those that are as good an answer. Each step ends with a synchronisation, as where `loss.item()` is logged.
"""

import argparse
import os
import sys
import threading
import time

WORKERS = max(2, (os.cpu_count() or 2) - 2)


class Edges:
    """The log of what the GPU does from now on."""

    def __init__(self, path):
        self.file = open(path, "a", buffering=1 << 16)

    def at(self, doing, when=None):
        self.file.write(f"{int((when or time.time()) * 1e6)} {doing}\n")

    def flush(self):
        self.file.flush()


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder of the JPEG files, the large file and the checkpoints")
    parser.add_argument("--edges", required=True, help="where the log goes")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="a model that a CPU can train")
    parser.add_argument("phases", nargs="+")
    return parser.parse_args()


args = parse()
edges = Edges(args.edges)

import torch  # noqa: E402  (the time that it takes is a part of the start)
from torch.utils.data import DataLoader, Dataset  # noqa: E402
from torchvision.io import decode_jpeg, read_file, write_jpeg  # noqa: E402
from torchvision.models import VisionTransformer  # noqa: E402

GPU = args.device == "cuda"
BATCH = 8 if args.small else 128
IMAGES = 64 if args.small else 1024
LARGE_BYTES = (64 << 20) if args.small else (6 << 30)


def prepare(data):
    """The files that the job reads; made once."""
    os.makedirs(f"{data}/jpeg", exist_ok=True)
    for n in range(IMAGES):
        path = f"{data}/jpeg/{n}.jpg"
        if not os.path.exists(path):
            coarse = torch.randint(0, 256, (1, 3, 48, 64), dtype=torch.float32)
            image = torch.nn.functional.interpolate(coarse, (480, 640), mode="bilinear")[0]
            write_jpeg(image.to(torch.uint8), path, quality=90)
    large = f"{data}/large"
    if not os.path.exists(large):
        block = os.urandom(16 << 20)
        with open(large, "wb") as file:
            for _ in range(LARGE_BYTES >> 24):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())


class Jpegs(Dataset):
    """Files from the page cache, decoded and resized by the worker."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return 1 << 40

    def __getitem__(self, n):
        image = decode_jpeg(read_file(f"{self.data}/jpeg/{hash(n) % IMAGES}.jpg"))
        image = torch.nn.functional.interpolate(image[None].float(), (224, 224), mode="bilinear", antialias=True)[0]
        return image.to(torch.uint8)


class Pieces(Dataset):
    """Pieces of the large file, past the page cache: next to no CPU time."""

    def __init__(self, data, piece_bytes):
        self.path, self.piece_bytes = f"{data}/large", piece_bytes

    def __len__(self):
        return 1 << 40

    def __getitem__(self, n):
        read_piece(self.path, self.piece_bytes, n)
        return torch.zeros(3, 224, 224, dtype=torch.uint8)


_thread = threading.local()


def read_piece(path, piece_bytes, n):
    """Reads one piece at an offset that depends on n, in reads of 256 KiB."""
    import mmap

    if getattr(_thread, "path", None) != path:
        try:
            _thread.fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        except OSError:
            _thread.fd = os.open(path, os.O_RDONLY)
        _thread.path, _thread.buffer = path, mmap.mmap(-1, 256 << 10)
    blocks = LARGE_BYTES // (256 << 10)
    for part in range(max(1, piece_bytes // (256 << 10))):
        offset = (n * 2654435761 + part * 40503) % blocks * (256 << 10)
        os.preadv(_thread.fd, [_thread.buffer], offset)
        os.posix_fadvise(_thread.fd, offset, 256 << 10, os.POSIX_FADV_DONTNEED)


def loader(dataset, workers):
    """Batches of the dataset without end."""
    more = {"prefetch_factor": 2} if workers else {}
    return iter(DataLoader(dataset, BATCH, num_workers=workers, pin_memory=GPU and workers > 0, **more))


def sync():
    if GPU:
        torch.cuda.synchronize()


class Job:
    """A model, its optimiser, and the phases."""

    def __init__(self):
        width = {"num_layers": 2, "num_heads": 4, "hidden_dim": 128, "mlp_dim": 256} if args.small else {
            "num_layers": 24, "num_heads": 16, "hidden_dim": 1024, "mlp_dim": 4096}
        self.device = torch.device(args.device)
        if GPU:
            torch.zeros(1, device=self.device)
        edges.at("cold_start")
        edges.flush()
        self.model = VisionTransformer(image_size=224, patch_size=16, **width)
        saved = f"{args.data}/start.pt"
        if not os.path.exists(saved):
            torch.save(self.model.state_dict(), saved)
        self.model.load_state_dict(torch.load(saved, map_location="cpu"))
        self.model.to(self.device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        for _ in range(3):
            self.step(torch.zeros(BATCH, 3, 224, 224, dtype=torch.uint8))
        begin = time.time()
        self.step(torch.zeros(BATCH, 3, 224, 224, dtype=torch.uint8))
        self.step_s = time.time() - begin
        say(f"a step takes {self.step_s:.3f} s")

    def step(self, batch):
        x = batch.to(self.device, non_blocking=True)
        x = x.to(torch.bfloat16) / 255
        with torch.autocast(args.device, torch.bfloat16):
            loss = self.model(x).float().square().mean()
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        sync()

    def train(self, seconds, batches, waiting):
        """Steps; the wait for each batch is lost to `waiting`."""
        end, steps, waited = time.time() + seconds, 0, 0.0
        while time.time() < end:
            begin = time.time()
            edges.at(waiting, begin)
            batch = next(batches)
            got = time.time()
            edges.at("productive", got)
            self.step(batch)
            if time.time() - got > 1.2 * self.step_s:
                # The GPU was ready; the thread that launches its kernels got no CPU.
                edges.at("dataloader_cpu host_noise;launch_bound", got + self.step_s)
            steps, waited = steps + 1, waited + got - begin
        say(f"{steps} steps in {seconds} s, {waited:.1f} s of it waited")

    def healthy(self, seconds):
        self.train(seconds, loader(Jpegs(args.data), WORKERS), "unexplained host_noise;dataloader_cpu")

    def few_workers(self, seconds):
        self.train(seconds, loader(Jpegs(args.data), 1), "dataloader_cpu")

    def in_process(self, seconds):
        torch.set_num_threads(1)
        self.train(seconds, loader(Jpegs(args.data), 0), "dataloader_cpu")

    def storage(self, seconds):
        """Batches of as many bytes as take 2.5 steps to read with four at once."""
        read, end = [0] * 4, time.time() + 2

        def reads(k):
            while time.time() < end:
                read_piece(f"{args.data}/large", 256 << 10, k * 7919 + read[k] * 104729)
                read[k] += 1

        edges.at("dataloader_storage")
        threads = [threading.Thread(target=reads, args=(k,)) for k in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        rate = sum(read) * (256 << 10) / 2
        piece = max(256 << 10, int(2.5 * self.step_s * rate / BATCH))
        say(f"four read {rate / 1e6:.0f} MB/s; pieces of {piece} bytes")
        self.train(seconds - 2, loader(Pieces(args.data, piece), 4), "dataloader_storage")

    def pageable(self, seconds):
        """A GiB of features goes to the GPU twice before each step, from memory that is not pinned."""
        features = torch.ones((64 << 20) if args.small else (1 << 30), dtype=torch.uint8)
        batch = torch.zeros(BATCH, 3, 224, 224, dtype=torch.uint8)
        end, steps, copied = time.time() + seconds, 0, 0.0
        while time.time() < end:
            begin = time.time()
            edges.at("host_to_device", begin)
            copies = [features.to(self.device) for _ in range(2)]
            sync()
            got = time.time()
            edges.at("productive", got)
            self.step(batch)
            steps, copied = steps + 1, copied + got - begin
            del copies
        say(f"{steps} steps, {copied:.1f} s copied {2 * steps * features.numel()} bytes")

    def checkpoint(self, seconds):
        batches, end = loader(Jpegs(args.data), WORKERS), time.time() + seconds
        while time.time() < end:
            self.train(8, batches, "unexplained host_noise;dataloader_cpu")
            begin = time.time()
            edges.at("checkpoint", begin)
            with open(f"{args.data}/checkpoint.pt", "wb") as file:
                torch.save({"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict()}, file)
                file.flush()
                os.fsync(file.fileno())
            say(f"saved in {time.time() - begin:.1f} s")

    def launch(self, seconds):
        """Kernels of microseconds. How long the GPU needs for a step is measured as a graph."""
        layers = torch.nn.Sequential(*[m for _ in range(60) for m in (
            torch.nn.Linear(256, 256), torch.nn.LayerNorm(256), torch.nn.GELU())]).to(self.device)
        x = torch.randn(8, 256, device=self.device)
        run = lambda: layers(x)  # noqa: E731
        with torch.no_grad():
            graph_s = self.graph_seconds(run) if GPU else 0.001
            end, steps, eager_s = time.time() + seconds, 0, 0.0
            while time.time() < end:
                begin = time.time()
                for _ in range(50):
                    run()
                sync()
                steps += 50
                eager_s = (time.time() - begin) / 50
                edges.at("productive", begin)
                edges.at("launch_bound", begin + 50 * min(graph_s, eager_s))
        say(f"{steps} small steps, {eager_s * 1e6:.0f} us each, {graph_s * 1e6:.0f} us as a graph")

    def graph_seconds(self, run):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        sync()
        begin = time.time()
        for _ in range(200):
            graph.replay()
        sync()
        return (time.time() - begin) / 200

    def idle(self, seconds):
        """Without work. Under five minutes it may be a pause."""
        edges.at("idle_held unexplained" if seconds < 300 else "idle_held")
        edges.flush()
        time.sleep(seconds)

    def spin(self, seconds):
        """A kernel that polls memory for a flag, as a collective whose peer does not come."""
        if not GPU:
            return time.sleep(seconds)
        import cupy

        edges.at("collective_wait unexplained")
        edges.flush()
        flag = cupy.zeros(1, dtype=cupy.int32)
        kernel = cupy.RawKernel(r"""
extern "C" __global__ void poll(volatile int* flag, long long ns) {
    long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (*flag == 0 && now - begin < ns);
}""", "poll")
        kernel((24,), (544,), (flag, int(seconds * 1e9)))
        cupy.cuda.Device().synchronize()

    def leak(self, seconds):
        """2 GiB more every 0.3 s, until there is none left."""
        kept, end = [], time.time() + seconds
        batch = torch.zeros(BATCH, 3, 224, 224, dtype=torch.uint8)
        edges.at("productive")
        try:
            while time.time() < end:
                kept.append(torch.empty((1 << 20) if args.small else (2 << 30), dtype=torch.uint8, device=self.device))
                begin = time.time()
                while time.time() - begin < 0.3:
                    self.step(batch)
        except torch.OutOfMemoryError:
            edges.at("oom")
            raise


def say(text):
    print(f"{time.time():.3f} {text}", flush=True)


def main():
    job = Job()
    for phase in args.phases:
        name, seconds = phase.split(":")
        say(f"phase {phase}")
        getattr(job, name)(float(seconds))
        edges.flush()


if __name__ == "__main__":
    try:
        if "prepare" in args.phases:
            prepare(args.data)
            sys.exit(0)
        main()
    finally:
        edges.at("unallocated")
        edges.flush()
