"""Test that datasets are downloaded once and completely, or an error names a way out."""

import bz2
import hashlib
import http.server
import threading

import pytest
from numpy.testing import assert_array_equal

pytest.importorskip("typer", reason="needs quadfeat[study]")

from quadfeat.apps.reporting.terminal import DownloadBar
from quadfeat.apps.study import data, fetch
from quadfeat.apps.study.errors import StudyError


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[self.path]
        self.send_response(200)
        # An interrupted transfer has fewer bytes than announced.
        missing = 1000 if self.path == "/broken" else 0
        if self.path == "/cut":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(content) + missing))
        self.end_headers()
        if self.path == "/cut":  # a chunk that is too short
            content = b"5\r\nabc"
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("QUADFEAT_CACHE", str(tmp_path / "cache"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    text = b"1 1:0.5 3:2\n-1 2:1\n"
    server.files = {"/good": bz2.compress(text), "/broken": bz2.compress(text), "/cut": b""}
    server.files["/page"] = b"<html>sign in first</html>"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


class TestFetch:
    def source(self, server, path, sha256=()):
        url = f"http://127.0.0.1:{server.server_port}{path}"
        return fetch.Files((url,), lambda contents: fetch.svmlight(contents, 3), sha256)

    def test_a_dataset_is_downloaded_once_and_kept(self, server):
        digest = hashlib.sha256(server.files["/good"]).hexdigest()
        path = fetch.fetch("tiny", self.source(server, "/good", (digest,)), (2, 3))
        X, y = data.read_archive(path)
        assert_array_equal(X, [[0.5, 0, 2], [0, 1, 0]])
        assert_array_equal(y, [1, -1])
        server.files.clear()  # any further request fails
        assert fetch.fetch("tiny", self.source(server, "/good"), (2, 3)) == path

    def test_a_bar_counts_the_bytes(self, server):
        class Bar:
            def __init__(self):
                self.total, self.done = 0, 0

            def update(self, n):
                self.done += n

            def reset(self):
                self.done = 0

            def close(self):
                pass

        bar = Bar()
        fetch.fetch("tiny", self.source(server, "/good"), (2, 3), bar)
        assert bar.done == bar.total == len(server.files["/good"])

    def test_the_bar_has_the_methods_that_pooch_calls(self):
        with DownloadBar("tiny") as shown:
            for total in (0, 10):  # 0 if the server does not report it
                shown.total = total
                shown.update(5)
                shown.reset()
                shown.update(total)
                shown.close()
                assert shown.total == total

    def test_a_server_that_has_no_such_file(self, server):
        with pytest.raises(StudyError, match=r"cannot download 'tiny' .*404"):
            fetch.fetch("tiny", self.source(server, "/missing"), (2, 3))
        assert list(fetch.cache_folder().iterdir()) == []

    def test_an_interrupted_download_leaves_nothing(self, server):
        class Interrupt:
            total = 0

            def update(self, n):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetch.fetch("tiny", self.source(server, "/good"), (2, 3), Interrupt())
        assert list(fetch.cache_folder().iterdir()) == []

    def test_a_wrong_checksum(self, server):
        with pytest.raises(StudyError, match=r"checksum.* nothing was kept"):
            fetch.fetch("tiny", self.source(server, "/good", ("0" * 64,)), (2, 3))
        assert list(fetch.cache_folder().iterdir()) == []

    @pytest.mark.parametrize("path", ["/broken", "/cut"])
    def test_a_broken_transfer(self, server, path):
        with pytest.raises(StudyError, match=r"cannot download .*(broke off|IncompleteRead)"):
            fetch.fetch("tiny", self.source(server, path), (2, 3))
        assert list(fetch.cache_folder().iterdir()) == []

    def test_a_page_in_place_of_the_dataset_is_not_kept(self, server):
        with pytest.raises(StudyError, match="did not send 'tiny'"):
            fetch.fetch("tiny", self.source(server, "/page"), (2, 3))
        assert list(fetch.cache_folder().iterdir()) == []

    def test_a_file_that_changed_in_the_cache(self, server):
        fetch.fetch("tiny", self.source(server, "/good"), (2, 3)).unlink()
        (fetch.cache_folder() / "good").write_bytes(bz2.compress(b"1 1:9\n"))
        with pytest.raises(StudyError, match="Delete it and fetch it again"):
            fetch.fetch("tiny", self.source(server, "/good"), (2, 3))

    def test_a_dataset_of_another_shape(self, server):
        with pytest.raises(StudyError, match=r"shape \(2, 3\), not \(5, 3\)"):
            fetch.fetch("tiny", self.source(server, "/good"), (5, 3))
        assert not (fetch.cache_folder() / "tiny.npz").exists()

    def test_offline_the_error_names_the_file_to_provide(self, tmp_path, monkeypatch):
        monkeypatch.setenv("QUADFEAT_CACHE", str(tmp_path))
        nobody = fetch.Files(("http://127.0.0.1:9/x",), fetch.power_plant)
        with pytest.raises(StudyError, match=r"offline, put tiny\.npz .* into " + str(tmp_path)):
            fetch.fetch("tiny", nobody, (2, 3))

    def test_every_dataset_of_the_paper_has_a_source(self):
        assert all(entry.source is not None for entry in data.PAPER.values())
