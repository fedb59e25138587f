# NAME.png of tools/paper.sh: accuracy beside dense over sparsity and block size; as in the paper green is dense's accuracy or
# more, orange at most 1.5 points less, red the rest.
#     gnuplot -e "name='fig8'" heat.gp
set datafile separator ','
set terminal pngcairo size 800,480 font 'sans,12' noenhanced
set output name.'.png'
set title 'Top-1 beside dense, points'
set xlabel 'sparsity (%)'
set ylabel 'block size'
blocks = system("awk -F, 'NR > 1 && $1 > 0 && !seen[$1]++ { print $1 }' ".name.'.csv')
levels = system("awk -F, 'NR > 1 && $1 > 0 && !seen[$2]++ { print $2 }' ".name.'.csv')
set xrange [0.5:words(levels) + 0.5]
set yrange [0.5:words(blocks) + 0.5]
place(list, value) = (at = 0, sum [k=1:words(list)] (word(list, k) + 0 == value ? k : 0))
set for [k=1:words(levels)] xtics add (word(levels, k) k) scale 0
set for [k=1:words(blocks)] ytics add (word(blocks, k) k) scale 0
colour(d) = d >= 0 ? 0x7fbf7f : d >= -1.5 ? 0xfdc070 : 0xf08a80
set style fill solid noborder
unset key
plot name.'.csv' every ::2 using (place(levels, $2)):(place(blocks, $1)):(0.49):(0.49):(colour($4)) \
        with boxxyerror lc rgb variable, \
    '' every ::2 using (place(levels, $2)):(place(blocks, $1)):(sprintf('%+.1f', $4)) with labels font 'sans,13'
