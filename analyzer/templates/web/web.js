// Comfort only; every page works without it.
"use strict";
(() => {
  const strips = [...document.querySelectorAll("svg.strip")];
  const marks = (strip) => [...strip.querySelectorAll("a")];

  // One tab stop per strip; arrows move within it and between strips.
  const enter = (link) => {
    marks(link.closest("svg.strip")).forEach((other) => other.setAttribute("tabindex", other === link ? "0" : "-1"));
    link.focus();
  };
  const middle = (link) => {
    const box = link.getBoundingClientRect();
    return box.left + box.width / 2;
  };
  const nearest = (strip, x) => marks(strip).reduce(
    (best, link) => (best && Math.abs(middle(best) - x) <= Math.abs(middle(link) - x) ? best : link), null);
  const next = (link, key) => {
    const strip = link.closest("svg.strip");
    const all = marks(strip);
    const at = all.indexOf(link);
    switch (key) {
      case "ArrowLeft": return all[at - 1];
      case "ArrowRight": return all[at + 1];
      case "Home": return all[0];
      case "End": return all[all.length - 1];
      case "ArrowUp":
      case "ArrowDown": {
        const other = strips[strips.indexOf(strip) + (key === "ArrowUp" ? -1 : 1)];
        return other && nearest(other, middle(link));
      }
      default: return undefined;
    }
  };

  strips.forEach((strip) => {
    marks(strip).slice(1).forEach((link) => link.setAttribute("tabindex", "-1"));
    strip.addEventListener("keydown", (event) => {
      const link = event.target.closest("a");
      if (!link || event.altKey || event.ctrlKey || event.metaKey) return;
      const other = next(link, event.key);
      if (other) {
        event.preventDefault();
        enter(other);
      }
    });
  });

  // What the pointer or the focus is on, in words, where it is seen at once.
  document.querySelectorAll(".lanes").forEach((lanes) => {
    const idle = "Arrow keys move between stretches, Enter opens one.";
    const hint = document.createElement("p");
    hint.className = "hint quiet";
    hint.setAttribute("aria-hidden", "true");
    hint.textContent = idle;
    lanes.after(hint);
    const say = (event) => {
      const link = event.target.closest("svg.strip a");
      const title = link && link.querySelector("title");
      hint.textContent = title ? title.textContent : idle;
    };
    lanes.addEventListener("mouseover", say);
    lanes.addEventListener("focusin", say);
  });

  // Commands are copied with one press.
  const copy = async (pre) => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      return "Copied";
    } catch {
      // Only pages of https and of this machine have a clipboard.
      getSelection().selectAllChildren(pre);
      return document.execCommand("copy") ? "Copied" : "Selected";
    }
  };
  document.querySelectorAll("main pre").forEach((pre) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => { button.textContent = await copy(pre); });
    pre.after(button);
  });

  // Results while a name is typed: those of the page that the button asks for.
  const results = document.querySelector("#results");
  if (results) {
    const field = document.querySelector("main input[type=search]");
    let timer;
    let asked = 0;
    const ask = async () => {
      const path = `/search?q=${encodeURIComponent(field.value)}`;
      asked += 1;
      const turn = asked;
      const answer = await fetch(path).catch(() => null);
      if (!answer || !answer.ok) return;
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#results");
      if (found && turn === asked) {
        results.replaceChildren(...found.childNodes);
        history.replaceState(null, "", path);
      }
    };
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(ask, 200);
    });
  }

  // A page about time that goes on can be loaded anew each minute.
  if (document.body.hasAttribute("data-changes")) {
    const key = "goodput.refresh";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "refresh";
    button.textContent = "refresh each minute";
    let timer;
    const set = (on) => {
      button.setAttribute("aria-pressed", String(on));
      clearTimeout(timer);
      if (on) timer = setTimeout(() => location.reload(), 60000);
    };
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      sessionStorage.setItem(key, on ? "on" : "off");
      set(on);
    });
    document.querySelector("nav.top").append(button);
    set(sessionStorage.getItem(key) === "on");
  }
})();
