r"""Add a folder to the user's PATH or remove it; run by the installer with the program's interpreter.

python -I user_path.py add|remove C:\Users\me\AppData\Local\Programs\Ammeter\bin
"""

from __future__ import annotations

import sys


def changed(path: str, folder: str, *, is_added: bool) -> str:
    """Return the PATH with the folder at its end, or without the folder."""
    others = [part for part in path.split(";") if part.rstrip("\\").casefold() != folder.casefold()]
    if not is_added:
        return ";".join(others)
    return ";".join([*(others if any(others) else []), folder]).replace(";;", ";")


def change(folder: str, *, is_added: bool) -> None:
    """Change the PATH in the user's registry and notify running programs."""
    if sys.platform == "win32":
        import ctypes
        import winreg

        with winreg.CreateKey(winreg.HKEY_CURRENT_USER, "Environment") as key:
            try:
                path, kind = winreg.QueryValueEx(key, "Path")
            except FileNotFoundError:
                path, kind = "", winreg.REG_EXPAND_SZ
            winreg.SetValueEx(key, "Path", 0, kind, changed(path, folder, is_added=is_added))
        everybody, setting_change, unless_hung, patience_ms = 0xFFFF, 0x001A, 0x0002, 1000
        ctypes.windll.user32.SendMessageTimeoutW(
            everybody, setting_change, 0, "Environment", unless_hung, patience_ms, None
        )


if __name__ == "__main__":
    change(sys.argv[2], is_added=sys.argv[1] == "add")
