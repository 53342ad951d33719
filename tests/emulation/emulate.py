"""emulate.py COMPILER ARGUMENTS...: compiles a .cu file as C++, and any other file as the compiler would by itself.

CMake calls it in front of the compiler. A .cu file is preprocessed, what only CUDA understands is written as C++ that
calls tests/emulation, and the result, OBJECT.ii, is compiled. Line markers lead errors back to the .cu file.
"""

import os
import re
import subprocess
import sys


def matching_open(text, end, opening, closing):
    """Where the bracket opens that closes at text[end]."""
    depth = 0
    for at in range(end, -1, -1):
        depth += (text[at] == closing) - (text[at] == opening)
        if depth == 0:
            return at
    raise SystemExit("emulate.py: unbalanced " + closing + " before a launch: " + text[max(0, end - 80):end + 1])


def kernel_begin(text, end):
    """Where the expression begins that names the kernel, a name with or without template arguments."""
    at = end
    if text[at - 1] == ">":
        at = matching_open(text, at - 1, "<", ">")
    elif text[at - 1] == ")":
        return matching_open(text, at - 1, "(", ")")
    while at > 0 and re.match(r"[\w:.]", text[at - 1]):
        at -= 1
    if at == end:
        raise SystemExit("emulate.py: no kernel before <<<: " + text[max(0, end - 80):end + 10])
    return at


def with_launches(text):
    parts = []
    done = 0
    for found in re.finditer(r"<<<", text):
        if found.start() < done:
            continue
        end = len(text[:found.start()].rstrip())
        begin = kernel_begin(text, end)
        close = text.find(">>>", found.end())
        if close < 0:
            raise SystemExit("emulate.py: <<< without >>>: " + text[begin:begin + 80])
        kernel = text[begin:end]
        name = " ".join(kernel.split()).replace("\\", "\\\\").replace('"', '\\"')
        parts += [text[done:begin], '::laconic::emulation::Launch("', name, '", ', text[found.end():close],
                  ")([=](const auto&... laconic_a) { ", kernel, "(laconic_a...); })"]
        done = close + 3
    return "".join(parts) + text[done:]


def with_shared(text):
    """Static shared memory is one per thread that launches, since blocks run one after another."""
    text = re.sub(r"\bextern\s+__shared__\s+(?:__attribute__\s*\(\(.*?\)\)\s*|alignas\s*\([^)]*\)\s*)?([\w:<>\s]+?)\s*"
                  r"\b(\w+)\s*\[\s*\]\s*;",
                  r"\1* const \2 = static_cast<\1*>(::laconic::emulation::dynamic_shared());", text)

    def static(found):
        declaration, name = found.group(1), found.group(2)
        if "," in re.sub(r"<.*>|\(.*\)", "", declaration):
            raise SystemExit("emulate.py: declare one __shared__ variable at a time: " + found.group(0))
        return (f"static thread_local {declaration}; static thread_local ::std::uint64_t {name}_block = 0; "
                f"::laconic::emulation::spoil_shared(&{name}, sizeof({name}), {name}_block);")

    return re.sub(r"\b__shared__\s+([^;{}]*?\b(\w+)\s*(?:\[[^;{}]*\])*\s*);", static, text)


def emulated(text):
    text = re.sub(r"^[ \t]*#[ \t]*pragma[ \t]+unroll\b.*$", "", text, flags=re.MULTILINE)
    text = with_shared(with_launches(text))
    left = re.search(r"\b__shared__\b.*", text)
    if left:
        raise SystemExit("emulate.py: not understood: " + left.group(0))
    return text


def without_dependencies(arguments):
    """Without -MD, -MT target and -MF file: the first pass writes them."""
    kept = iter(arguments)
    return [each for each in kept if each != "-MD" and not (each in ("-MT", "-MF") and next(kept, True))]


def main(command):
    source = next((each for each in command if each.endswith(".cu")), None)
    if source is None:
        os.execvp(command[0], command)
    output = command[command.index("-o") + 1]
    middle = output + ".ii"
    first = [each for each in command if each not in ("-c", source)]
    first[first.index(output, first.index("-o"))] = middle
    if os.path.basename(first[0]) in ("ccache", "sccache"):
        first = first[1:]
    status = subprocess.call(first + ["-D__CUDACC__", "-E", "-x", "c++", source])
    if status != 0:
        return status
    with open(middle, encoding="utf-8") as file:
        text = emulated(file.read())
    with open(middle, "w", encoding="utf-8") as file:
        file.write(text)
    second = [middle if each == source else each for each in without_dependencies(command)]
    return subprocess.call(second + ["-Wno-pedantic"])  # of line markers


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
