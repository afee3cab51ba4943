"use strict";
// One crosshair through all curves; the legends are its read-out.
(() => {
  const data = JSON.parse(document.getElementById("read-out").textContent);
  const units = { step: "step ", seconds: "", samples: "" };
  const ends = { step: "", seconds: " s", samples: " samples" };
  const plots = [...document.querySelectorAll(".plot svg")];
  const lines = new Map();
  let fraction = null;

  const byOf = (svg) => svg.dataset.by;
  const number = (value, digits) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

  function nearest(xs, x) {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle; else high = middle;
    }
    return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
  }

  function readAt(curve, by, x) {
    const xs = by === "samples" ? curve.step.map((step) => step * curve.samples_a_step) : curve[by];
    const slack = 0.02 * data.ends[by];
    if (!xs.length || x > xs[xs.length - 1] + slack || x < xs[0] - slack) return "–";
    const value = curve.value[nearest(xs, x)];
    return value === null ? "–" : number(value, curve.digits);
  }

  function cross(svg) {
    if (!lines.has(svg)) {
      const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      line.setAttribute("class", "cross");
      line.setAttribute("y1", svg.dataset.top);
      line.setAttribute("y2", svg.dataset.bottom);
      svg.append(line);
      lines.set(svg, line);
    }
    return lines.get(svg);
  }

  function show(by) {
    const end = data.ends[by];
    for (const svg of plots.filter((one) => byOf(one) === by)) {
      const line = cross(svg);
      line.setAttribute("visibility", fraction === null ? "hidden" : "visible");
      if (fraction !== null) {
        const left = Number(svg.dataset.left), right = Number(svg.dataset.right);
        line.setAttribute("x1", left + fraction * (right - left));
        line.setAttribute("x2", left + fraction * (right - left));
      }
    }
    for (const chart of document.querySelectorAll(".chart")) {
      const x = fraction === null ? null : fraction * end;
      chart.querySelector(".at").textContent = x === null ? "" : units[by] + number(x, by === "seconds" ? 1 : 0) + ends[by];
      for (const item of chart.querySelectorAll("li")) {
        const curve = data.charts[chart.dataset.chart][item.dataset.side];
        item.querySelector("output").textContent = x === null || !curve ? "" : readAt(curve, by, x);
      }
    }
  }

  function moveTo(svg, wanted) {
    fraction = wanted === null ? null : Math.min(1, Math.max(0, wanted));
    show(byOf(svg));
  }

  for (const svg of plots) {
    svg.tabIndex = 0;
    const follow = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const left = Number(svg.dataset.left), right = Number(svg.dataset.right);
      moveTo(svg, (x - left) / (right - left));
    };
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointerleave", () => moveTo(svg, null));
    svg.addEventListener("blur", () => moveTo(svg, null));
    svg.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -0.01, ArrowRight: 0.01 };
      if (event.key in steps) {
        event.preventDefault();
        moveTo(svg, (fraction ?? 0) + steps[event.key]);
      } else if (event.key === "Escape") {
        moveTo(svg, null);
      }
    });
  }

  const details = [...document.querySelectorAll("details")];
  addEventListener("beforeprint", () => details.forEach((one) => { one.open = true; }));
})();
