"""A second job that knows what it waits for: `language.py --data DIR --edges FILE PHASE:SECONDS...`.

It trains a language model on made-up tokens, serves requests, or does what looks like a fault and is none. `train.py`
says what the log means. A phase that fails is told, and the next one starts.
"""

import os
import random
import threading
import time
import traceback
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import train
from train import GPU, args, edges, say, sync, torch

WIDTH, LAYERS, LENGTH, BATCH = (128, 2, 64, 2) if args.small else (2048, 16, 1024, 8)
VOCABULARY = 32000
GIB = (1 << 20) if args.small else (1 << 30)
ANSWER_S = 0.4


class Block(torch.nn.Module):
    """A layer of a decoder."""

    def __init__(self):
        super().__init__()
        self.before, self.after = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (-1, 64)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1))
        heads = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.after(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Remote(torch.utils.data.Dataset):
    """Batches that a server sends after a while, as an object store far away does."""

    def __init__(self, url):
        self.url = url

    def __len__(self):
        return 1 << 40

    def __getitem__(self, n):
        data = urllib.request.urlopen(f"{self.url}/{n}").read()
        return torch.frombuffer(bytearray(data), dtype=torch.int32).long().view(BATCH, LENGTH)


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(ANSWER_S * 4)
        body = b"\1\0\0\0" * (BATCH * LENGTH)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Language(train.Job):
    """The model, its optimiser, and the phases."""

    def __init__(self):
        self.device = torch.device(args.device)
        if GPU:
            torch.zeros(1, device=self.device)
        edges.at("cold_start")
        edges.flush()
        self.model = Model().to(self.device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
        for _ in range(4):
            begin = time.time()
            self.step(self.tokens)
            self.step_s = time.time() - begin
        say(f"a step takes {self.step_s:.3f} s")

    def step(self, tokens, wait=True):
        tokens = tokens.to(self.device, non_blocking=True)
        with torch.autocast(args.device, torch.bfloat16):
            logits = self.model(tokens)
        torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten()).backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if wait:
            sync()

    def steady(self, seconds):
        """Tokens that are there already; a synchronisation every tenth step."""
        edges.at("productive")
        end, steps = time.time() + seconds, 0
        while time.time() < end:
            for n in range(10):
                self.step(self.tokens, n == 9)
            steps += 10
        say(f"{steps} steps")

    def overlapped(self, seconds):
        """A GiB goes from pinned memory to the GPU beside each step, which takes no longer for it."""
        pinned = torch.ones(GIB, dtype=torch.uint8, pin_memory=GPU)
        there = torch.empty(GIB, dtype=torch.uint8, device=self.device)
        stream = torch.cuda.Stream() if GPU else None
        edges.at("productive")
        end, steps, begin = time.time() + seconds, 0, time.time()
        while time.time() < end:
            with torch.cuda.stream(stream):
                there.copy_(pinned, non_blocking=True)
            self.step(self.tokens)
            steps += 1
        say(f"{steps} steps of {(time.time() - begin) / steps:.3f} s, {GIB} bytes beside each")

    def saved_beside(self, seconds):
        """Checkpoints that a thread writes while the job goes on; only the copy to memory stops it."""
        end, writer = time.time() + seconds, None
        while time.time() < end:
            edges.at("productive")
            work = time.time() + 8
            while time.time() < work:
                self.step(self.tokens)
            begin = time.time()
            edges.at("checkpoint unexplained", begin)
            state = {name: value.detach().to("cpu") for name, value in self.model.state_dict().items()}
            edges.at("productive")
            say(f"copied in {time.time() - begin:.2f} s")
            if writer:
                writer.join()
            writer = threading.Thread(target=torch.save, args=(state, f"{args.data}/beside.pt"))
            writer.start()
        writer.join()

    def memory(self, seconds):
        """Kernels that do nothing but read and write device memory."""
        a, b = (torch.zeros(GIB // 2, device=self.device) for _ in range(2))
        edges.at("productive")
        end = time.time() + seconds
        while time.time() < end:
            for _ in range(50):
                torch.add(a, b, out=a)
            sync()

    def recurrent(self, seconds):
        """Kernels of real work, one after another, that fill few multiprocessors."""
        network = torch.nn.LSTM(256, 256, 2, batch_first=True).to(self.device)
        x = torch.randn(16, 2048 if GPU else 32, 256, device=self.device)
        edges.at("productive")
        end, steps = time.time() + seconds, 0
        with torch.no_grad():
            while time.time() < end:
                network(x)
                sync()
                steps += 1
        say(f"{steps} passes")

    def decode(self, seconds):
        """One token of one answer at a time, as a server without CUDA graphs has them."""
        self.model.eval()
        token = torch.zeros(1, 1, dtype=torch.long, device=self.device)
        with torch.no_grad(), torch.autocast(args.device, torch.bfloat16, cache_enabled=False):
            graph_s = self.graph_seconds(lambda: self.model(token)) if GPU else 0.001
            end, tokens, eager_s = time.time() + seconds, 0, 0.0
            while time.time() < end:
                begin = time.time()
                for _ in range(20):
                    self.model(token).argmax()
                    sync()
                tokens, eager_s = tokens + 20, (time.time() - begin) / 20
                edges.at("productive", begin)
                edges.at("launch_bound", begin + 20 * min(graph_s, eager_s))
        self.model.train()
        say(f"{tokens} tokens, {eager_s * 1e6:.0f} us each, {graph_s * 1e6:.0f} us as a graph")

    def tokenise(self, seconds):
        """The process on the GPU makes tokens of text in memory, by Python alone: nothing is read."""
        words, end, steps = [f"word{n}" for n in range(5000)], time.time() + seconds, 0
        while time.time() < end:
            edges.at("dataloader_cpu")
            until, table = time.time() + 1.5 * self.step_s, {}
            while time.time() < until:
                for word in words:
                    table[word] = hash(word) % VOCABULARY
            edges.at("productive")
            self.step(self.tokens)
            steps += 1
        say(f"{steps} steps")

    def remote(self, seconds):
        """Four workers that wait for an answer from the network most of the time."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        data = Remote(f"http://127.0.0.1:{server.server_port}")
        batches = iter(torch.utils.data.DataLoader(data, None, num_workers=4, prefetch_factor=2))
        self.train(seconds, batches, "dataloader_storage unexplained")
        server.shutdown()

    def requests(self, seconds):
        """A server without metrics: a request now and then, a fifth of a second to a second of work each."""
        chance, end, answered = random.Random(22), time.time() + seconds, 0
        while time.time() < end:
            edges.at("no_demand unexplained;idle_held")
            time.sleep(chance.expovariate(1 / 2.0))
            edges.at("productive")
            until = time.time() + chance.uniform(0.2, 1.0)
            with torch.no_grad(), torch.autocast(args.device, torch.bfloat16):
                while time.time() < until:
                    self.model(self.tokens.to(self.device))
                    sync()
            answered += 1
        say(f"{answered} requests")

    def notebook(self, seconds):
        """Somebody runs a cell of eight seconds, then thinks for half a minute."""
        end = time.time() + seconds
        while time.time() < end:
            edges.at("productive")
            until = time.time() + 8
            while time.time() < until:
                self.step(self.tokens)
            edges.at("idle_held unexplained")
            edges.flush()
            time.sleep(30)

    def compiled(self, seconds):
        """torch.compile makes kernels on the CPU, then the GPU works."""
        edges.at("cold_start unexplained")
        edges.flush()
        begin, model = time.time(), self.model
        self.model = torch.compile(model)
        self.step(self.tokens)
        say(f"compiled in {time.time() - begin:.1f} s")
        self.steady(max(1.0, seconds - (time.time() - begin)))
        self.model = model


def main():
    job = Language()
    for phase in args.phases:
        name, seconds = phase.split(":")
        say(f"phase {phase}")
        try:
            getattr(job, name)(float(seconds))
        except Exception:
            traceback.print_exc()
        edges.flush()


if __name__ == "__main__":
    try:
        main()
    finally:
        edges.at("unallocated")
        edges.flush()
        os._exit(0)
