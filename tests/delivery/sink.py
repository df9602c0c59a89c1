"""A mail server for tests: STARTTLS or TLS, AUTH, and addresses that it treats badly.

Prints a line of JSON for each thing that happens; the first has its port. Reads orders from standard input, a line of JSON
each: {"kill": PID, "stage": STAGE, "mails": N} kills the process when it comes to that stage with the Nth mail from now on.

By the name before the @: `refuse` is refused, `later` is put off twice, `cut` has its first mail taken and not answered,
`silent` gets no answer the first time, all others are taken.
"""

import asyncio
import email
import email.policy
import json
import os
import signal
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

USER, PASSWORD = b"goodput", b"s3cret-of-mail"


def say(**event):
    print(json.dumps(event), flush=True)


class Sink:
    def __init__(self):
        self.order, self.mails = None, 0
        self.tries = {}

    def reach(self, stage):
        """Kills the sender, where that is the order."""
        order = self.order
        if stage == "connect":
            self.mails += 1
        if order and order["stage"] == stage and self.mails >= order["mails"]:
            self.order = None
            try:
                os.kill(order["kill"], signal.SIGKILL)
            except ProcessLookupError:
                return False
            say(event="killed", stage=stage)
            return True
        return False

    def is_first(self, to, times=1):
        self.tries[to] = self.tries.get(to, 0) + 1
        return self.tries[to] <= times

    async def handle_EHLO(self, server, session, envelope, hostname, responses):
        self.reach("ehlo")
        session.host_name = hostname
        return responses

    async def handle_MAIL(self, server, session, envelope, address, options):
        self.reach("mail")
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        self.reach("rcpt")
        name = address.split("@")[0]
        if name == "refuse":
            say(event="refused", to=address)
            return "550 5.1.1 no such user here"
        if name == "later" and self.is_first(address, 2):
            say(event="put off", to=address)
            return "450 4.2.0 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        to = envelope.rcpt_tos[0]
        if self.reach("data"):
            return "451 4.3.0 gone"
        name = to.split("@")[0]
        if name == "silent" and self.is_first(to):
            say(event="silent", to=to)
            await asyncio.sleep(3600)
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        parts = {part.get_content_type(): part.get_content() for part in mail.walk() if not part.is_multipart()}
        headers = {key.lower(): str(value) for key, value in mail.items()}
        say(
            event="mail",
            to=to,
            sender=envelope.mail_from,
            headers=headers,
            parts=parts,
            bytes=len(envelope.content),
            tls=server.transport.get_extra_info("ssl_object") is not None,
            user=session.auth_data.decode() if session.auth_data else None,
        )
        if name == "cut" and self.is_first(to):
            server.transport.abort()
            return "250 not heard"
        self.reach("taken")
        return "250 OK"

    async def handle_QUIT(self, server, session, envelope):
        self.reach("quit")
        return "221 Bye"


def authenticate(server, session, envelope, mechanism, data):
    server.event_handler.reach("auth")
    is_right = (data.login, data.password) == (USER, PASSWORD)
    return AuthResult(success=is_right, auth_data=data.login, handled=False)


class Server(SMTP):
    def connection_made(self, transport):
        if self._original_transport is None:
            self.event_handler.reach("connect")
        super().connection_made(transport)


async def main(certificate, key, mode):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    sink = Sink()
    starttls = {"tls_context": context, "require_starttls": True}
    plain = {"auth_require_tls": False}
    options = {"starttls": starttls, "tls": plain, "none": plain}[mode]
    login = {} if mode == "none" else {"auth_required": True, "authenticator": authenticate}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Server(sink, hostname="sink", **options, **login),
        "127.0.0.1",
        0,
        ssl=context if mode == "tls" else None,
    )
    say(event="listening", port=server.sockets[0].getsockname()[1])
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        sink.order, sink.mails = json.loads(line), 0
        say(event="ordered")


asyncio.run(main(*sys.argv[1:]))
