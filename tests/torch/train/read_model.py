"""read_model.py STEM...: loads STEM.safetensors into a model of torch.nn, feeds it the input of STEM.example, and
compares the logits with those that the program computed."""

import json
import struct
import sys

import torch
from torch import nn


def read(path):
    """All tensors of a safetensors file of 32-bit floats, and its remarks."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    remarks = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32"
        tensors[name] = torch.frombuffer(data[begin:end], dtype=torch.float32).reshape(entry["shape"])
    return tensors, remarks


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = (nn.Conv2d(i, o, 3, padding=1) for i, o in [(1, 32), (32, 64), (64, 128)])
        self.fc1, self.fc2 = nn.Linear(1152, 256), nn.Linear(256, 10)

    def forward(self, x):
        for conv in (self.conv1, self.conv2, self.conv3):
            x = nn.functional.max_pool2d(conv(x).relu(), 2)
        return self.fc2(self.fc1(x.flatten(1)).relu())


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.downsample = nn.Identity()
        if i != o:
            self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + self.downsample(x)).relu()


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu()
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.fc(x.mean((2, 3)))


class BiLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 128, padding_idx=0)
        self.lstm = nn.LSTM(128, 128, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(256, 10)

    def forward(self, words):
        rows = []
        for text in words.long():  # one by one, without its padding
            outputs, _ = self.lstm(self.embedding(text[text != 0]).unsqueeze(0))
            rows.append(outputs.mean(1))
        return self.fc(torch.cat(rows))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (4, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class GptBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln_1, self.ln_2 = (nn.LayerNorm(width, bias=False) for _ in range(2))
        self.attn = Attention(width)
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(width, 4 * width, bias=False), "c_proj": nn.Linear(4 * width, width, bias=False)}
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x))))


class GptSmall(nn.Module):
    def __init__(self, characters=10, context=7, width=128):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(characters, width),
                "wpe": nn.Embedding(context, width),
                "h": nn.ModuleList(GptBlock(width) for _ in range(3)),
                "ln_f": nn.LayerNorm(width, bias=False),
            }
        )

    def forward(self, text):
        parts = self.transformer
        x = parts["wte"](text.long()) + parts["wpe"].weight
        for block in parts["h"]:
            x = block(x)
        return (parts["ln_f"](x) @ parts["wte"].weight.T).flatten(0, 1)


MODELS = {"cnn": Cnn, "resnet18": ResNet18, "bilstm": BiLstm, "gpt-small": GptSmall}

for stem in sys.argv[1:]:
    tensors, remarks = read(stem + ".safetensors")
    model = MODELS[remarks["model"]]()
    model.load_state_dict(tensors)
    example, _ = read(stem + ".example")
    with torch.no_grad():
        difference = (model.eval()(example["input"]) - example["logits"]).abs().max().item()
    if not difference < 1e-4 * (1 + example["logits"].abs().max().item()):
        sys.exit(f"{remarks['model']}: the logits differ by {difference}")
    print(f"{remarks['model']}: the logits differ by at most {difference:.1e}")
