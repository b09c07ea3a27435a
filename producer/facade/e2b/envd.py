# Does in a sandbox what E2B's daemon does there with files and programs. What is asked for is JSON in base64; what it comes to is printed, and an error is JSON
# on stderr, with the exit code 90.
def glovebox_envd(asked):
    import base64, errno, grp, json, os, pwd, shutil, signal, stat, subprocess, sys, time

    asked = json.loads(base64.b64decode(asked))
    home, work = "/home/user", "/work"

    class Refused(Exception):
        pass

    def real(path):
        path = os.path.normpath(os.path.join(home, path.replace("~", home, 1) if path.startswith("~/") or path == "~" else path))
        return work + path[len(home):] if path == home or path.startswith(home + "/") else path

    def shown(path):
        return home + path[len(work):] if path == work or path.startswith(work + "/") else path

    def named(get, number):
        try:
            return get(number)[0]
        except KeyError:
            return str(number)

    def entry(path):
        s = os.lstat(path)
        kind = "FILE_TYPE_FILE" if stat.S_ISREG(s.st_mode) else "FILE_TYPE_DIRECTORY" if stat.S_ISDIR(s.st_mode) else "FILE_TYPE_SYMLINK" if stat.S_ISLNK(s.st_mode) else "FILE_TYPE_UNSPECIFIED"
        e = {
            "name": os.path.basename(shown(path)), "type": kind, "path": shown(path), "size": str(s.st_size), "mode": stat.S_IMODE(s.st_mode),
            "permissions": stat.filemode(s.st_mode), "owner": named(pwd.getpwuid, s.st_uid), "group": named(grp.getgrgid, s.st_gid),
            "modifiedTime": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(s.st_mtime)) + ".%09dZ" % (s.st_mtime_ns % 10**9),
        }
        if kind == "FILE_TYPE_SYMLINK":
            e["symlinkTarget"] = shown(os.path.realpath(path))
            if os.path.isdir(path):
                e["type"] = "FILE_TYPE_DIRECTORY"
            elif os.path.isfile(path):
                e["type"] = "FILE_TYPE_FILE"
        return e

    def printed(size):  # else what a program prints that was left running would be taken for it
        display({"application/x-glovebox-printed": str(size)}, raw=True)

    def read(path):
        path = real(path)
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Refused("invalid_argument", "path is no regular file: " + shown(path))
        if os.path.getsize(path) > asked["most"]:
            raise Refused("resource_exhausted", "file is larger than the %d bytes that can be read" % asked["most"])
        with open(path, "rb") as f:
            sys.stdout.flush()
            shutil.copyfileobj(f, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            printed(f.tell())

    def place():
        try:
            for source, path in asked["files"]:
                path = real(path)
                if os.path.isdir(path):
                    raise Refused("invalid_argument", "path is a directory: " + shown(path))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                shutil.move(os.path.join(work, source), path)
        finally:
            shutil.rmtree(os.path.join(work, asked["from"]), ignore_errors=True)

    def listed(path, depth):
        if not os.path.isdir(path):
            os.stat(path)
            raise Refused("invalid_argument", "path is not a directory: " + shown(path))
        for name in sorted(os.listdir(path)):
            below = os.path.join(path, name)
            try:
                e = entry(below)
            except FileNotFoundError:
                continue
            yield e
            if depth > 1 and e["type"] == "FILE_TYPE_DIRECTORY" and not os.path.islink(below):
                yield from listed(below, depth - 1)

    def list_dir(path, depth):
        entries = []
        for e in listed(real(path), depth):
            entries.append(e)
            if len(entries) > 10000:
                raise Refused("resource_exhausted", "the directory has more than 10000 entries")
        return {"entries": entries}

    def make_dir(path):
        path = real(path)
        if os.path.isdir(path):
            raise Refused("already_exists", "directory already exists: " + shown(path))
        os.makedirs(path)
        return {"entry": entry(path)}

    def move(source, destination):
        source, destination = real(source), real(destination)
        os.lstat(source)
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        try:
            os.rename(source, destination)
        except OSError as e:
            if e.errno != errno.EXDEV:
                raise
            if os.path.isdir(destination):
                raise Refused("already_exists", "directory already exists: " + shown(destination))
            shutil.move(source, destination)  # home and /tmp are file systems of their own
        return {"entry": entry(destination)}

    def remove(path):
        path = real(path)
        if path in (work, "/"):
            raise Refused("invalid_argument", "that can't be removed")
        if not os.path.lexists(path):
            return {}
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        return {}

    def run():
        sys.stdout.flush()
        directory = real(asked["cwd"])
        if not os.path.isdir(directory):
            raise Refused("invalid_argument", "cwd is not a directory: " + shown(directory))
        try:
            child = subprocess.Popen([asked["cmd"], *asked["args"]], cwd=directory, env={**os.environ, **asked["envs"]}, stdin=subprocess.DEVNULL)
        except OSError as e:
            raise Refused("invalid_argument", "%s: %s" % (asked["cmd"], e.strerror))
        try:
            code = child.wait()
        except BaseException:  # it is interrupted, which the child was told, too
            child.kill()
            child.wait()
            raise
        if code < 0:
            raise SystemExit(128 - code)
        if code:
            raise SystemExit(code)

    try:
        do = asked["do"]
        said = None
        if do == "read":
            read(asked["path"])
        elif do == "place":
            place()
        elif do == "run":
            run()
        elif do == "list":
            said = list_dir(asked["path"], asked["depth"])
        elif do == "stat":
            said = {"entry": entry(real(asked["path"]))}
        elif do == "mkdir":
            said = make_dir(asked["path"])
        elif do == "move":
            said = move(asked["source"], asked["destination"])
        elif do == "remove":
            said = remove(asked["path"])
        if said is not None:
            said = json.dumps(said) + "\n"
            sys.stdout.write(said)
            printed(len(said))
    except (Refused, OSError) as e:
        codes = {errno.ENOENT: "not_found", errno.ENOTDIR: "not_found", errno.EEXIST: "already_exists", errno.EACCES: "permission_denied", errno.EPERM: "permission_denied", errno.EROFS: "permission_denied", errno.ENOSPC: "resource_exhausted", errno.ENAMETOOLONG: "invalid_argument", errno.EISDIR: "invalid_argument"}
        code, message = e.args if isinstance(e, Refused) else (codes.get(e.errno, "internal"), "%s: %s" % (e.strerror, shown(str(e.filename))))
        print(json.dumps({"code": code, "message": message}), file=sys.stderr)
        raise SystemExit(90)
    except (ValueError, KeyError, TypeError) as e:  # a NUL in a name
        print(json.dumps({"code": "invalid_argument", "message": str(e)}), file=sys.stderr)
        raise SystemExit(90)


