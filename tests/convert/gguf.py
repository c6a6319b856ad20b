"""A plain reader of GGUF, for looking into results."""
import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        self.at = 0
        magic, version, n_tensors, n_keys = self.take("4sIQQ")
        assert magic == b"GGUF" and version == 3
        self.keys = {}
        for _ in range(n_keys):
            name = self.text()
            self.keys[name] = self.value(self.take("I")[0])
        self.tensors = {}
        for _ in range(n_tensors):
            name, n = self.text(), self.take("I")[0]
            dims = self.take(f"{n}Q")
            self.tensors[name] = (dims, *self.take("IQ"))

    def take(self, form):
        size = struct.calcsize("<" + form)
        out = struct.unpack_from("<" + form, self.data, self.at)
        self.at += size
        return out

    def text(self):
        n = self.take("Q")[0]
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.take(SCALARS[kind])[0]
        inner, n = self.take("IQ")
        if inner == 8:
            return [self.text() for _ in range(n)]
        return list(self.take(f"{n}{SCALARS[inner]}"))
