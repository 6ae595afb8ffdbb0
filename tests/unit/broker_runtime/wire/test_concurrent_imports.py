"""The event loop imports kio's classes while another thread imports kio's writers, which import the headers first."""

import subprocess
import sys

# The other thread pauses when it imports the package of a header, until the event loop's thread waits for that package.
# If that one has begun with the header's module, each then waits for a module of the other.
SCRIPT = """
import sys, threading, time
from importlib.machinery import PathFinder
sys.modules['hypothesis'] = None
from broker_runtime.wire.messages import message_type

PACKAGE = 'kio.schema.request_header.v2'
failures, waited = [], []
is_pausing = threading.Event()
main = threading.get_ident()


def waits():
    frame = sys._current_frames()[main]
    return frame.f_code.co_name == 'acquire' and frame.f_locals['self'].name.startswith('kio.schema.request_header.v')


class Pause:
    def find_spec(self, name, path, target=None):
        if name == PACKAGE and threading.get_ident() != main:
            spec = PathFinder.find_spec(name, path)
            spec.loader = PausingLoader(spec.loader)
            return spec


class PausingLoader:
    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        # From here on until this returns, the package's import is locked, and sys.modules does not have it.
        is_pausing.set()
        end_s = time.monotonic() + 20
        while not waits() and time.monotonic() < end_s:
            time.sleep(0.001)
        waited.append(waits())
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)


def load():
    try:
        import kio.static.protocol
    except BaseException as error:
        failures.append(repr(error))


sys.meta_path.insert(0, Pause())
other = threading.Thread(target=load)
other.start()
assert is_pausing.wait(20)
try:
    message_type(3, 12, 'Request')
except BaseException as error:
    failures.append(repr(error))
other.join(20)
assert not other.is_alive()
print(waited, *failures)
"""


def test_classes_can_be_imported_while_a_thread_imports_the_headers() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.strip() == "[True]"
